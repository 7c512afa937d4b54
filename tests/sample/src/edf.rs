//! A mask as an EDF file, as fabio and the ESRF's programs write it.

/// The file of a `rows` x `columns` image of bytes.
pub(crate) fn bytes(shape: [usize; 2], pixels: &[u8]) -> Vec<u8> {
    let keys = format!(
        "{{\nHeaderID = EH:000001:000000:000000 ;\nImage = 1 ;\nByteOrder = LowByteFirst ;\n\
         DataType = UnsignedByte ;\nDim_1 = {} ;\nDim_2 = {} ;\nSize = {} ;\n",
        shape[1],
        shape[0],
        pixels.len()
    );
    // Blanks up to a multiple of 512, with the closing brace at the end.
    let mut file = format!("{keys:<510}}}\n").into_bytes();
    file.extend(pixels);
    file
}
