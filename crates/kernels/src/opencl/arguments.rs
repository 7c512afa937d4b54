//! Arguments of the OpenCL kernels, as structs with a field per parameter.

use ocl::core::{self, ArgVal, Kernel};

use super::buffer::DeviceBuffer;
use super::error::DeviceError;

/// An argument of a kernel: a buffer or a number.
pub(super) enum KernelArgument<'a> {
    Buffer(&'a DeviceBuffer),
    Word(u32),
    Double(f64),
}

impl<'a> From<&'a DeviceBuffer> for KernelArgument<'a> {
    fn from(buffer: &'a DeviceBuffer) -> KernelArgument<'a> {
        KernelArgument::Buffer(buffer)
    }
}

impl From<u32> for KernelArgument<'_> {
    fn from(word: u32) -> Self {
        KernelArgument::Word(word)
    }
}

impl From<f64> for KernelArgument<'_> {
    fn from(double: f64) -> Self {
        KernelArgument::Double(double)
    }
}

/// Defines the arguments of a kernel: a field for each of its parameters, with the parameter's
/// name, in their order. `set` passes them to the kernel.
macro_rules! kernel_arguments {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        struct $name<'a> {
            $($field: $type,)*
        }

        impl $name<'_> {
            /// The names of the kernel's parameters, in their order.
            #[cfg(test)]
            const PARAMETERS: &'static [&'static str] = &[$(stringify!($field)),*];

            /// Sets the arguments of a kernel.
            fn set(self, kernel: &ocl::core::Kernel) -> Result<(), DeviceError> {
                $crate::opencl::arguments::set_arguments(kernel, &[$(self.$field.into()),*])
            }
        }
    };
}
pub(super) use kernel_arguments;

/// Sets the arguments of a kernel, in the order of its parameters.
pub(super) fn set_arguments(
    kernel: &Kernel,
    arguments: &[KernelArgument<'_>],
) -> Result<(), DeviceError> {
    for (index, argument) in (0..).zip(arguments) {
        let value = match argument {
            KernelArgument::Buffer(buffer) => ArgVal::mem(&buffer.mem),
            KernelArgument::Word(word) => ArgVal::scalar(word),
            KernelArgument::Double(double) => ArgVal::scalar(double),
        };
        core::set_kernel_arg(kernel, index, value)?;
    }
    Ok(())
}

/// Returns the names of a kernel's parameters, by its source text.
#[cfg(test)]
pub(super) fn parameters_in_source<'a>(source: &'a str, kernel: &str) -> Vec<&'a str> {
    let (_, from_name) = source.split_once(&format!("void {kernel}(")).expect("the kernel");
    let (list, _) = from_name.split_once(')').expect("the end of the parameters");
    let name = |parameter: &'a str| parameter.rsplit([' ', '*']).next().expect("a name");
    list.split(',').map(name).collect()
}
