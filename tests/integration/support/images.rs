//! Images in file formats that have a header and plain pixels.

/// Returns an EDF file of 16-bit pixels that all have one value.
pub fn uniform_edf([rows, columns]: [usize; 2], value: u16) -> Vec<u8> {
    let keys = format!(
        "{{\nByteOrder = LowByteFirst ;\nDataType = UnsignedShort ;\nDim_1 = {columns} ;\nDim_2 = {rows} ;\nSize = {} ;\n",
        2 * rows * columns
    );
    let mut bytes = format!("{keys:<510}}}\n").into_bytes();
    bytes.extend(std::iter::repeat_n(value.to_le_bytes(), rows * columns).flatten());
    bytes
}

/// Returns a NumPy file of the pixels of an image, which have this `dtype`, as in `<u2`.
pub fn npy(dtype: &str, [rows, columns]: [usize; 2], pixels: &[u8]) -> Vec<u8> {
    let keys =
        format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{keys:<117}\n").into_bytes());
    bytes.extend(pixels);
    bytes
}
