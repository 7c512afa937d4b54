//! Loads `libOpenCL` at run time, so that one binary runs on nodes with and without OpenCL.
//!
//! Crate `ocl` links with `libOpenCL.so.1`, and a program linked with a library does not even start
//! where the library is not installed. This crate therefore defines every OpenCL function that
//! `ocl` imports:
//!
//! 1. [`load`] opens the library with `dlopen`: the one that `AZPIPE_OPENCL_LIBRARY` names, or the
//!    system's.
//! 2. Each function passes its arguments to the function of the same name in that library. Without
//!    a library it returns `CL_PLATFORM_NOT_FOUND_KHR`.
//! 3. `build.rs` gives the linker an empty `libOpenCL.a`, so that a build needs no OpenCL either. A
//!    shared library of stubs would not do, because the program would then depend on a library of
//!    that name.
//!
//! ```
//! match opencl_loader::load() {
//!     Ok(()) => println!("functions of crate `ocl` may be called"),
//!     Err(why) => println!("no OpenCL, so everything runs on the CPU: {why}"),
//! }
//! ```
//!
//! The forwarding functions are untyped. All arguments and results of OpenCL's host functions are
//! integers and pointers. The calling conventions of 64-bit Linux (x86-64, AArch64, POWER) pass
//! each of them in a register or an eight-byte slot of the stack, so a word is passed on unchanged.
//! Only the number of arguments, and the way to report an error, distinguish the functions.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("the forwarders rely on the calling conventions of 64-bit Linux");

mod library;

pub use library::{LIBRARY_VARIABLE, OpenClNotLoaded, load};

use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An argument or a result of an OpenCL function.
type CWord = usize;

/// Status that OpenCL's loaders (ICD loaders) return if there is no driver.
const CL_PLATFORM_NOT_FOUND_KHR: i32 = -1001;

/// Returns the address of a function in the library, or 0 if there is none, and keeps it in
/// `cache`. `name` ends with a NUL byte.
fn cached_address(cache: &AtomicUsize, name: &'static str) -> usize {
    match cache.load(Relaxed) {
        0 => {
            let found = library::find_symbol(name).map_or(0, |address| address.get());
            cache.store(found, Relaxed);
            found
        }
        known => known,
    }
}

/// Stands in for a missing function whose result is a status.
fn return_status(_: &[CWord]) -> CWord {
    CL_PLATFORM_NOT_FOUND_KHR as CWord
}

/// Stands in for a missing function that creates an object: writes the status to the last argument,
/// a pointer that may be null, and returns null.
fn return_errcode(arguments: &[CWord]) -> CWord {
    let status = arguments.last().copied().unwrap_or(0) as *mut i32;
    if !status.is_null() {
        // SAFETY: this stands in only for functions whose last argument is `errcode_ret` (the lines
        // of `forward!` that name `return_errcode`). By OpenCL's specification it is null, which
        // was compared, or points to a `cl_int` that the caller owns and lets the function write.
        unsafe { status.write(CL_PLATFORM_NOT_FOUND_KHR) };
    }
    0
}

/// Stands in for a missing function that returns a pointer and reports no errors.
fn return_null(_: &[CWord]) -> CWord {
    0
}

/// Defines forwarding functions, from lines `(arguments) stand-in => functions`.
macro_rules! forward {
    ($($arguments:tt $stand_in:ident => $($name:ident)*;)*) => { $($(forward!(@ $name $arguments $stand_in);)*)* };
    (@ $name:ident ($($argument:ident)*) $stand_in:ident) => {
        // SAFETY: the program has no other symbol of this name: nothing else that is linked defines
        // OpenCL's functions (`build.rs` gives the linker an empty library), and the one that is
        // loaded is opened with RTLD_LOCAL.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        unsafe extern "C" fn $name($($argument: CWord),*) -> CWord {
            static ADDRESS: AtomicUsize = AtomicUsize::new(0);
            match cached_address(&ADDRESS, concat!(stringify!($name), "\0")) {
                0 => $stand_in(&[$($argument),*]),
                address => {
                    // SAFETY: `address` is not 0 and is that of the function of this name in the
                    // library, which is never closed. A function pointer has the size of a word.
                    // The function takes as many integers and pointers as there are names here, and
                    // returns one: in the calling conventions of 64-bit Linux each is a word (see
                    // the module's documentation).
                    let function: unsafe extern "C" fn($($argument: CWord),*) -> CWord = unsafe { transmute(address) };
                    // SAFETY: all arguments are passed on as they are, so the function's own
                    // conditions are those that the caller, who calls it by this name, has to meet.
                    unsafe { function($($argument),*) }
                }
            }
        }
    };
}

forward! {
    () return_status =>
        clUnloadCompiler;
    (a) return_status =>
        clRetainDevice clReleaseDevice clRetainContext clReleaseContext clRetainCommandQueue clReleaseCommandQueue
        clRetainMemObject clReleaseMemObject clRetainSampler clReleaseSampler clRetainProgram clReleaseProgram
        clRetainKernel clReleaseKernel clRetainEvent clReleaseEvent clFlush clFinish clEnqueueBarrier;
    (a b) return_status =>
        clGetHostTimer clWaitForEvents clSetUserEventStatus clEnqueueMarker;
    (a b c) return_status =>
        clGetGLObjectInfo clGetPlatformIDs clSetDefaultDeviceCommandQueue clGetDeviceAndHostTimer
        clSetMemObjectDestructorCallback clSetKernelArgSVMPointer clEnqueueWaitForEvents;
    (a b c d) return_status =>
        clCreateKernelsInProgram clSetKernelArg clSetKernelExecInfo clSetEventCallback clEnqueueMarkerWithWaitList
        clEnqueueBarrierWithWaitList;
    (a b c d e) return_status =>
        clGetGLTextureInfo clGetGLContextInfoKHR clGetPlatformInfo clGetDeviceIDs clGetDeviceInfo clCreateSubDevices
        clGetContextInfo clGetCommandQueueInfo clGetMemObjectInfo clGetImageInfo clGetPipeInfo clGetSamplerInfo
        clGetProgramInfo clGetKernelInfo clGetEventInfo clGetEventProfilingInfo clEnqueueTask clEnqueueSVMUnmap;
    (a b c d e f) return_status =>
        clEnqueueAcquireGLObjects clEnqueueReleaseGLObjects clGetSupportedImageFormats clBuildProgram
        clGetProgramBuildInfo clGetKernelArgInfo clGetKernelWorkGroupInfo clEnqueueUnmapMemObject;
    (a b c d e f g) return_status =>
        clEnqueueMigrateMemObjects;
    (a b c d e f g h) return_status =>
        clGetKernelSubGroupInfo clEnqueueFillImage clEnqueueSVMMemcpy clEnqueueSVMMemFill clEnqueueSVMMap
        clEnqueueSVMMigrateMem;
    (a b c d e f g h i) return_status =>
        clCompileProgram clEnqueueReadBuffer clEnqueueWriteBuffer clEnqueueFillBuffer clEnqueueCopyBuffer
        clEnqueueCopyImage clEnqueueCopyImageToBuffer clEnqueueCopyBufferToImage clEnqueueNDRangeKernel
        clEnqueueSVMFree;
    (a b c d e f g h i j) return_status =>
        clEnqueueNativeKernel;
    (a b c d e f g h i j k) return_status =>
        clEnqueueReadImage clEnqueueWriteImage;
    (a b c d e f g h i j k l m) return_status =>
        clEnqueueCopyBufferRect;
    (a b c d e f g h i j k l m n) return_status =>
        clEnqueueReadBufferRect clEnqueueWriteBufferRect;
    (a b) return_errcode =>
        clCloneKernel clCreateUserEvent;
    (a b c) return_errcode =>
        clCreateSamplerWithProperties clCreateKernel;
    (a b c d) return_errcode =>
        clCreateFromGLBuffer clCreateFromGLRenderbuffer clCreateCommandQueue clCreateCommandQueueWithProperties
        clCreateProgramWithIL;
    (a b c d e) return_errcode =>
        clCreateContextFromType clCreateBuffer clCreateSubBuffer clCreateSampler clCreateProgramWithSource
        clCreateProgramWithBuiltInKernels;
    (a b c d e f) return_errcode =>
        clCreateFromGLTexture clCreateFromGLTexture2D clCreateFromGLTexture3D clCreateContext clCreateImage
        clCreatePipe;
    (a b c d e f g) return_errcode =>
        clCreateProgramWithBinary;
    (a b c d e f g h) return_errcode =>
        clCreateImage2D;
    (a b c d e f g h i) return_errcode =>
        clLinkProgram;
    (a b c d e f g h i j) return_errcode =>
        clCreateImage3D clEnqueueMapBuffer;
    (a b c d e f g h i j k l) return_errcode =>
        clEnqueueMapImage;
    (a) return_null =>
        clGetExtensionFunctionAddress;
    (a b) return_null =>
        clSVMFree clGetExtensionFunctionAddressForPlatform;
    (a b c d) return_null =>
        clSVMAlloc;
}
