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

pub use library::{LIBRARY_VARIABLE, OpenClNotLoaded, load};

use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// An argument or a result.
type CWord = usize;

/// `CL_PLATFORM_NOT_FOUND_KHR`, which installable-client-driver loaders return where there is no driver.
const CL_PLATFORM_NOT_FOUND_KHR: i32 = -1001;

/// The function's address in the library, kept in `cache`; 0 where there is none. `name` ends in a zero.
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

/// What a function returns that reports errors by its result.
fn return_status(_: &[CWord]) -> CWord {
    CL_PLATFORM_NOT_FOUND_KHR as CWord
}

/// What a function returns that makes something, and reports errors through its last argument, a pointer that may be
/// null.
fn return_errcode(arguments: &[CWord]) -> CWord {
    let code = arguments.last().copied().unwrap_or(0) as *mut i32;
    if !code.is_null() {
        // SAFETY: OpenCL's `errcode_ret`: null, or a place for a `cl_int` that the caller owns.
        unsafe { code.write(CL_PLATFORM_NOT_FOUND_KHR) };
    }
    0
}

/// What a function returns that reports no errors.
fn return_null(_: &[CWord]) -> CWord {
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
            match cached_address(&ADDRESS, concat!(stringify!($name), "\0")) {
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
