//! OpenCL, looked for when it is asked for: one binary for nodes that have it and nodes that have not.
//!
//! The crate `ocl` is linked with `libOpenCL.so.1`, and a program that is does not even start where that library is not
//! installed. So this crate defines the functions that `ocl` imports, each of which passes its arguments on to the
//! function of the same name in the library that [`load`] has found; without one it returns
//! `CL_PLATFORM_NOT_FOUND_KHR`. `build.rs` gives the linker an empty `libOpenCL.a`, so that a build needs no OpenCL
//! either. A library of stubs at link time would not do: its name would stand in the program all the same.
//!
//! The forwarders are untyped. All arguments and results of OpenCL's host functions are integers and pointers, and the
//! calling conventions of 64-bit Linux (x86-64, AArch64, POWER) pass each of these in a register or a slot of the stack
//! of eight bytes, extended or not as the caller left it: a word is handed on as it came. What distinguishes
//! the functions is the number of their arguments, and how they report an error.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("the forwarders rely on the calling conventions of 64-bit Linux");

mod library;

pub use library::{OpenClNotLoaded, VARIABLE, load};

use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An argument or a result.
type CWord = usize;

/// `CL_PLATFORM_NOT_FOUND_KHR`, which installable-client-driver loaders return where there is no driver.
const NOT_FOUND: i32 = -1001;

/// The function's address in the library, kept in `cache`; 0 where there is none. `name` ends in a zero.
fn address(cache: &AtomicUsize, name: &'static str) -> usize {
    match cache.load(Relaxed) {
        0 => {
            let found = library::symbol(name).map_or(0, |address| address.get());
            cache.store(found, Relaxed);
            found
        }
        known => known,
    }
}

/// What a function returns that reports errors by its result.
fn status(_: &[CWord]) -> CWord {
    NOT_FOUND as CWord
}

/// What a function returns that makes something, and reports errors through its last argument, a pointer that may be
/// null.
fn nothing_made(arguments: &[CWord]) -> CWord {
    let code = arguments.last().copied().unwrap_or(0) as *mut i32;
    if !code.is_null() {
        // SAFETY: OpenCL's `errcode_ret`: null, or a place for a `cl_int` that the caller owns.
        unsafe { code.write(NOT_FOUND) };
    }
    0
}

/// What a function returns that reports no errors.
fn null(_: &[CWord]) -> CWord {
    0
}

/// `(arguments) result without a library => functions`.
macro_rules! forward {
    ($($arguments:tt $absent:ident => $($name:ident)*;)*) => { $($(forward!(@ $name $arguments $absent);)*)* };
    (@ $name:ident ($($argument:ident)*) $absent:ident) => {
        // SAFETY: the program has no other symbol of this name, for the library is opened without adding its own.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        unsafe extern "C" fn $name($($argument: CWord),*) -> CWord {
            static ADDRESS: AtomicUsize = AtomicUsize::new(0);
            match address(&ADDRESS, concat!(stringify!($name), "\0")) {
                0 => $absent(&[$($argument),*]),
                address => {
                    // SAFETY: it is the address of this very function in the library; its arguments are words.
                    let function: unsafe extern "C" fn($($argument: CWord),*) -> CWord = unsafe { transmute(address) };
                    // SAFETY: the caller's to hold, by OpenCL's specification of the function.
                    unsafe { function($($argument),*) }
                }
            }
        }
    };
}

forward! {
    () status =>
        clUnloadCompiler;
    (a) status =>
        clRetainDevice clReleaseDevice clRetainContext clReleaseContext clRetainCommandQueue clReleaseCommandQueue
        clRetainMemObject clReleaseMemObject clRetainSampler clReleaseSampler clRetainProgram clReleaseProgram
        clRetainKernel clReleaseKernel clRetainEvent clReleaseEvent clFlush clFinish clEnqueueBarrier;
    (a b) status =>
        clGetHostTimer clWaitForEvents clSetUserEventStatus clEnqueueMarker;
    (a b c) status =>
        clGetGLObjectInfo clGetPlatformIDs clSetDefaultDeviceCommandQueue clGetDeviceAndHostTimer
        clSetMemObjectDestructorCallback clSetKernelArgSVMPointer clEnqueueWaitForEvents;
    (a b c d) status =>
        clCreateKernelsInProgram clSetKernelArg clSetKernelExecInfo clSetEventCallback clEnqueueMarkerWithWaitList
        clEnqueueBarrierWithWaitList;
    (a b c d e) status =>
        clGetGLTextureInfo clGetGLContextInfoKHR clGetPlatformInfo clGetDeviceIDs clGetDeviceInfo clCreateSubDevices
        clGetContextInfo clGetCommandQueueInfo clGetMemObjectInfo clGetImageInfo clGetPipeInfo clGetSamplerInfo
        clGetProgramInfo clGetKernelInfo clGetEventInfo clGetEventProfilingInfo clEnqueueTask clEnqueueSVMUnmap;
    (a b c d e f) status =>
        clEnqueueAcquireGLObjects clEnqueueReleaseGLObjects clGetSupportedImageFormats clBuildProgram
        clGetProgramBuildInfo clGetKernelArgInfo clGetKernelWorkGroupInfo clEnqueueUnmapMemObject;
    (a b c d e f g) status =>
        clEnqueueMigrateMemObjects;
    (a b c d e f g h) status =>
        clGetKernelSubGroupInfo clEnqueueFillImage clEnqueueSVMMemcpy clEnqueueSVMMemFill clEnqueueSVMMap
        clEnqueueSVMMigrateMem;
    (a b c d e f g h i) status =>
        clCompileProgram clEnqueueReadBuffer clEnqueueWriteBuffer clEnqueueFillBuffer clEnqueueCopyBuffer
        clEnqueueCopyImage clEnqueueCopyImageToBuffer clEnqueueCopyBufferToImage clEnqueueNDRangeKernel
        clEnqueueSVMFree;
    (a b c d e f g h i j) status =>
        clEnqueueNativeKernel;
    (a b c d e f g h i j k) status =>
        clEnqueueReadImage clEnqueueWriteImage;
    (a b c d e f g h i j k l m) status =>
        clEnqueueCopyBufferRect;
    (a b c d e f g h i j k l m n) status =>
        clEnqueueReadBufferRect clEnqueueWriteBufferRect;
    (a b) nothing_made =>
        clCloneKernel clCreateUserEvent;
    (a b c) nothing_made =>
        clCreateSamplerWithProperties clCreateKernel;
    (a b c d) nothing_made =>
        clCreateFromGLBuffer clCreateFromGLRenderbuffer clCreateCommandQueue clCreateCommandQueueWithProperties
        clCreateProgramWithIL;
    (a b c d e) nothing_made =>
        clCreateContextFromType clCreateBuffer clCreateSubBuffer clCreateSampler clCreateProgramWithSource
        clCreateProgramWithBuiltInKernels;
    (a b c d e f) nothing_made =>
        clCreateFromGLTexture clCreateFromGLTexture2D clCreateFromGLTexture3D clCreateContext clCreateImage
        clCreatePipe;
    (a b c d e f g) nothing_made =>
        clCreateProgramWithBinary;
    (a b c d e f g h) nothing_made =>
        clCreateImage2D;
    (a b c d e f g h i) nothing_made =>
        clLinkProgram;
    (a b c d e f g h i j) nothing_made =>
        clCreateImage3D clEnqueueMapBuffer;
    (a b c d e f g h i j k l) nothing_made =>
        clEnqueueMapImage;
    (a) null =>
        clGetExtensionFunctionAddress;
    (a b) null =>
        clSVMFree clGetExtensionFunctionAddressForPlatform;
    (a b c d) null =>
        clSVMAlloc;
}
