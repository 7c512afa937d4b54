//! Grids are found where frames lie on one, and nowhere else.

use super::*;

/// Numbers between -1 and 1 (SplitMix64).
fn draws(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// The order in which the cells of a map are measured.
#[derive(Clone, Copy, Debug)]
enum Order {
    Raster,
    Snake,
    Interlaced,
}

/// Cells of a map of `rows` x `columns`, in an order.
fn cells(order: Order, rows: usize, columns: usize) -> Vec<[usize; 2]> {
    let mut all = Vec::new();
    let lines: Vec<usize> = match order {
        Order::Interlaced => (0..rows).step_by(2).chain((1..rows).step_by(2)).collect(),
        _ => (0..rows).collect(),
    };
    for row in lines {
        for column in 0..columns {
            let turned = matches!(order, Order::Snake) && row % 2 == 1;
            all.push([row, if turned { columns - 1 - column } else { column }]);
        }
    }
    all
}

#[test]
fn grids_are_found_in_any_order_with_jitter_and_gaps() {
    for seed in 0..60 {
        let mut draw = draws(seed);
        let order = [Order::Raster, Order::Snake, Order::Interlaced][seed as usize % 3];
        let (rows, columns) = (2 + seed as usize % 7, 3 + seed as usize % 11);
        let step = [10_f64.powf(3.0 * draw()), -10_f64.powf(3.0 * draw())];
        let origin = [100.0 * step[0] * draw(), 100.0 * step[1] * draw()];
        let mut all = cells(order, rows, columns);
        // Measured until some frame of the second half, at the least a row and a frame.
        all.truncate((all.len() * 3 / 4).max(2 * columns));
        let jitter = 0.1 * (seed % 2) as f64;
        let positions: Vec<[f64; 2]> = all
            .iter()
            .map(|cell| {
                [0, 1].map(|axis| origin[axis] + step[axis] * (cell[axis] as f64 + jitter * draw()))
            })
            .collect();
        let about = format!("{order:?} {rows} x {columns}, seed {seed}");
        let grid = MapGrid::find(&positions, false).expect(&about);
        let measured_rows = all.iter().map(|cell| cell[0]).max().unwrap() + 1;
        assert_eq!((grid.slow.len(), grid.fast.len()), (measured_rows, columns), "{about}");
        for (frame, [row, column]) in all.iter().enumerate() {
            // The second step is negative, so that columns are counted from the other end.
            let cell = row * columns + columns - 1 - column;
            assert_eq!(grid.cells[cell], Some(frame), "{about}");
            let distance = (grid.slow[*row] - positions[frame][0]).abs();
            assert!(distance <= MAX_DEVIATION * step[0].abs(), "{about}");
        }
        assert_eq!(grid.cells.iter().flatten().count(), all.len(), "{about}");
    }
}

#[test]
fn a_large_map_is_found_though_lines_are_missing() {
    let mut draw = draws(3);
    let all = cells(Order::Snake, 80, 120).into_iter().filter(|[row, _]| !(20..25).contains(row));
    let positions: Vec<[f64; 2]> =
        all.map(|cell| [0, 1].map(|axis| cell[axis] as f64 * 1e-3 + 1e-4 * draw())).collect();
    let grid = MapGrid::find(&positions, false).unwrap();
    assert_eq!((grid.slow.len(), grid.fast.len()), (80, 120));
    assert_eq!(grid.cells.iter().filter(|cell| cell.is_none()).count(), 5 * 120);
}

#[test]
fn a_line_is_a_map_of_one_row() {
    let mut draw = draws(7);
    let positions: Vec<[f64; 2]> =
        (0..20).map(|column| [3.0 + 1e-4 * draw(), f64::from(column)]).collect();
    let grid = MapGrid::find(&positions, false).unwrap();
    assert_eq!((grid.slow.len(), grid.fast.len()), (1, 20));
    assert!((grid.slow[0] - 3.0).abs() < 1e-4);
}

#[test]
fn positions_that_are_anywhere_or_repeated_are_no_grid() {
    for seed in 0..20 {
        let mut draw = draws(seed);
        let positions: Vec<[f64; 2]> = (0..40).map(|_| [draw(), draw()]).collect();
        assert_eq!(MapGrid::find(&positions, false), None, "seed {seed}");
    }
    assert_eq!(MapGrid::find(&[[0.0, 0.0], [0.0, 1.0], [0.0, 1.0]], false), None);
    assert_eq!(MapGrid::find(&[], false), None);
}

/// Returns the largest distance of a frame from the position that the grid has for it, in steps of
/// the axis; of an axis with a single line, in steps of the other one.
fn largest_deviation(grid: &MapGrid, positions: &[[f64; 2]]) -> f64 {
    let step = |axis: &[f64]| match axis {
        [first, .., last] => (last - first).abs() / (axis.len() - 1) as f64,
        _ => f64::INFINITY,
    };
    let steps = [&grid.slow, &grid.fast].map(|axis| step(axis));
    let mut largest: f64 = 0.0;
    for (cell, frame) in grid.cells.iter().enumerate() {
        let Some(frame) = frame else { continue };
        let place = [grid.slow[cell / grid.fast.len()], grid.fast[cell % grid.fast.len()]];
        for axis in [0, 1] {
            let unit = if steps[axis].is_finite() { steps[axis] } else { steps[1 - axis] };
            let distance = (place[axis] - positions[*frame][axis]).abs();
            largest = largest.max(if distance == 0.0 { 0.0 } else { distance / unit });
        }
    }
    largest
}

/// Position along a line of `period` frames that is measured again and again.
fn sawtooth(frame: usize, period: usize) -> f64 {
    (frame % period) as f64
}

/// Position along a line of `period` frames that is measured to and fro.
fn zigzag(frame: usize, period: usize) -> f64 {
    let column = frame % period;
    (if (frame / period).is_multiple_of(2) { column } else { period - 1 - column }) as f64
}

#[test]
fn frames_of_motors_that_move_together_are_no_grid() {
    for seed in 0..400 {
        let mut draw = draws(seed);
        let frames = [20, 24, 40, 57, 100, 200][seed as usize % 6];
        // Longer than the gaps that an incomplete grid may have, and at least half a period.
        let period = 5 + seed as usize % (frames / 2 - 4);
        // Numbers of the fast axis may be smaller than those of the other one, or larger.
        let scale = 10_f64.powf(4.0 * draw());
        let jitter = 0.1 * (seed % 2) as f64;
        let along: Vec<f64> = (0..frames).map(|frame| frame as f64).collect();
        let phase = draw();
        type Path = Box<dyn Fn(usize) -> f64>;
        let families: [(&str, Path); 5] = [
            ("line in any direction", Box::new(|frame| frame as f64)),
            ("line back", Box::new(|frame| -(frame as f64))),
            ("lines while the other motor turns", Box::new(move |frame| sawtooth(frame, period))),
            ("zigzag while the other motor turns", Box::new(move |frame| zigzag(frame, period))),
            (
                // Of a few positions on a wave, three lines may be equidistant.
                "wave while the other motor turns",
                Box::new(move |frame| (frame as f64 * 3.1 / period as f64 + phase).sin()),
            ),
        ];
        for (family, path) in families {
            let positions: Vec<[f64; 2]> = along
                .iter()
                .enumerate()
                .map(|(frame, turn)| {
                    [turn + jitter * draw(), scale * (path(frame) + 0.5 * jitter * draw())]
                })
                .collect();
            let swapped: Vec<[f64; 2]> = positions.iter().map(|[one, two]| [*two, *one]).collect();
            for positions in [positions, swapped] {
                let about = format!("{family}, {frames} frames, period {period}, seed {seed}");
                assert_eq!(MapGrid::find(&positions, false), None, "{about}");
            }
        }
    }
}

#[test]
fn spirals_are_no_grid() {
    for seed in 0..200 {
        let mut draw = draws(seed);
        let frames = 16 + seed as usize;
        let angle = 2.4 + draw();
        let scale = 10_f64.powf(3.0 * draw());
        let positions: Vec<[f64; 2]> = (0..frames)
            .map(|frame| {
                let (radius, angle) = ((frame as f64).sqrt(), angle * frame as f64);
                [scale * radius * angle.cos(), radius * angle.sin()]
            })
            .collect();
        assert_eq!(MapGrid::find(&positions, seed % 2 == 0), None, "seed {seed}");
    }
}

#[test]
fn no_grid_puts_frames_where_they_were_not_measured() {
    for seed in 0..2000 {
        let mut draw = draws(seed);
        let frames = 2 + seed as usize % 60;
        let period = 1 + (seed as usize / 60) % 12;
        // A scan of lines, of which the slow motor stands still, steps, or moves all the time, and the
        // fast one moves to and fro, back at once, or is slower at its ends.
        let shear = [0.0, 0.02, 0.1, 0.5, 1.0][seed as usize % 5] * (1.0 + 0.1 * draw());
        let stair = [0.0, 1.0][seed as usize / 5 % 2];
        let scale = 10_f64.powf(3.0 * draw());
        let jitter = [0.0, 1e-4, 0.1, 0.3][seed as usize / 10 % 4];
        let positions: Vec<[f64; 2]> = (0..frames)
            .map(|frame| {
                let column = match seed % 3 {
                    0 => sawtooth(frame, period),
                    1 => zigzag(frame, period),
                    _ => (frame as f64 / period as f64).sin(),
                };
                let row = stair * (frame / period) as f64 + shear * frame as f64 / period as f64;
                [scale * (row + jitter * draw()), column + jitter * draw()]
            })
            .collect();
        for same_units in [false, true] {
            let Some(grid) = MapGrid::find(&positions, same_units) else { continue };
            let about = format!("{frames} frames of period {period}, seed {seed}");
            let mut placed: Vec<usize> = grid.cells.iter().flatten().copied().collect();
            placed.sort_unstable();
            assert_eq!(placed, (0..frames).collect::<Vec<_>>(), "{about}");
            // Each frame is near its line, whose position is the mean over its frames.
            let deviation = largest_deviation(&grid, &positions);
            assert!(deviation <= 2.0 * MAX_DEVIATION, "{about}: {deviation}");
        }
    }
}

#[test]
fn a_line_with_noise_is_a_map_of_one_row_or_column_at_any_scale() {
    for seed in 0..400 {
        let mut draw = draws(seed);
        let frames = 2 + seed as usize % 60;
        let noise = [0.0, 1e-6, 1e-3, 0.009][seed as usize / 60 % 4];
        // Where the units are unknown, a few frames in a row can't be told from noise, and the other way round.
        let positions: Vec<[f64; 2]> = (0..frames)
            .map(|frame| [1e3 * (5.0 + noise * draw()), 1e3 * (frame as f64 + 1e-3 * draw())])
            .collect();
        let about = format!("{frames} frames, seed {seed}");
        let grid = MapGrid::find(&positions, false).expect(&about);
        assert_eq!((grid.slow.len(), grid.fast.len()), (1, frames), "{about}");
    }
}

#[test]
fn a_drift_or_noise_far_below_the_step_is_no_motion_where_units_are_the_same() {
    let mut draw = draws(5);
    for (drift, noise, is_still) in [
        (8e-4, 0.0, [true, false]),
        (0.01, 0.0, [false, false]),
        (0.0, 0.08, [true, true]),
        (0.0, 0.17, [true, false]),
    ] {
        let positions: Vec<[f64; 2]> = (0..20)
            .map(|frame| [7.0 + drift * f64::from(frame) + noise * draw(), f64::from(frame)])
            .collect();
        let found = [true, false].map(|same_units| {
            MapGrid::find(&positions, same_units).is_some_and(|grid| grid.slow.len() == 1)
        });
        assert_eq!(found, is_still, "{drift}, {noise}");
    }
}

#[test]
fn a_small_shear_is_a_grid_and_a_large_one_is_not() {
    let sheared = |shear: f64| -> Vec<[f64; 2]> {
        (0..60)
            .map(|frame| [(frame / 6) as f64 + shear * (frame % 6) as f64, (frame % 6) as f64])
            .collect()
    };
    for shear in [0.0, 0.02, 0.05, -0.05, 0.07] {
        let grid = MapGrid::find(&sheared(shear), false).unwrap();
        assert_eq!((grid.slow.len(), grid.fast.len()), (10, 6), "{shear}");
    }
    for shear in [0.1, 0.12, 1.0 / 6.0] {
        assert_eq!(MapGrid::find(&sheared(shear), false), None, "{shear}");
    }
}

#[test]
fn noise_is_rarely_taken_for_motion_and_motion_never_for_noise() {
    let mut taken_for_motion = 0;
    for seed in 0..1000 {
        let mut draw = draws(seed);
        let frames = 3 + seed as usize % 80;
        // Encoders of many motors know a few positions only.
        let noise = |draw: f64| if seed % 4 == 0 { draw.signum() } else { draw };
        let positions: Vec<[f64; 2]> =
            (0..frames).map(|frame| [1e-3 * noise(draw()), frame as f64]).collect();
        taken_for_motion +=
            usize::from(MapGrid::find(&positions, false).is_none_or(|grid| grid.slow.len() > 1));
    }
    assert!(taken_for_motion <= 10, "{taken_for_motion} of 1000");
    for frames in 10..100 {
        for period in 5..=frames / 2 {
            let positions: Vec<[f64; 2]> =
                (0..frames).map(|frame| [1e-3 * sawtooth(frame, period), frame as f64]).collect();
            assert_eq!(MapGrid::find(&positions, false), None, "{frames} frames, period {period}");
        }
    }
}

#[test]
fn frames_at_every_other_cell_of_a_grid_are_on_it() {
    let positions: Vec<[f64; 2]> =
        (0..20).map(|frame| [(frame % 2) as f64, frame as f64]).collect();
    let grid = MapGrid::find(&positions, false).unwrap();
    assert_eq!((grid.slow, grid.fast.len()), (vec![0.0, 1.0], 20));
}
