// Lays a graph out in layers, from top to bottom: the method of Sugiyama, with its four steps in this order.
"use strict";

const [NODE_HEIGHT, LAYER_GAP, NODE_GAP, BEND_WIDTH] = [38, 34, 14, 10];
// An edge over more layers than this is drawn without bends: it would need one for each layer.
const LONGEST_BENT = 60;
const SWEEPS = 6;

// `boxes`: {width, from: [numbers of boxes]}, each after those that it comes from. Returns x, y and edges as points.
function layOut(boxes) {
  const ranks = layersOf(boxes);
  const { items, edges } = withBends(boxes, ranks);
  const layers = [];
  for (const item of items) (layers[item.layer] ??= []).push(item);
  order(layers);
  place(layers);
  for (const item of items) item.y = item.layer * (NODE_HEIGHT + LAYER_GAP);
  const least = Math.min(0, ...items.map((item) => item.x - item.width / 2));
  for (const item of items) item.x -= least;
  return {
    boxes: items.slice(0, boxes.length), edges,
    width: Math.max(1, ...items.map((item) => item.x + item.width / 2)), height: Math.max(NODE_HEIGHT, layers.length * (NODE_HEIGHT + LAYER_GAP) - LAYER_GAP),
  };
}

// 1. A box is below all that it comes from; one that comes from nothing is right above the first box that needs it.
function layersOf(boxes) {
  const ranks = boxes.map(() => 0);
  boxes.forEach((box, at) => { for (const from of box.from) ranks[at] = Math.max(ranks[at], ranks[from] + 1); });
  const nearest = boxes.map(() => Infinity);
  boxes.forEach((box, at) => { for (const from of box.from) nearest[from] = Math.min(nearest[from], ranks[at] - 1); });
  return ranks.map((rank, at) => boxes[at].from.length || nearest[at] === Infinity ? rank : nearest[at]);
}

// 2. An edge over several layers bends in each of them. The edges from one box share their bends.
function withBends(boxes, ranks) {
  const items = boxes.map((box, at) => ({ layer: ranks[at], width: box.width, above: [], below: [] }));
  const edges = [];
  const bends = new Map();
  const join = (upper, lower) => { upper.below.push(lower); lower.above.push(upper); };
  boxes.forEach((box, to) => {
    for (const from of new Set(box.from)) {
      const points = [items[from]];
      if (ranks[to] - ranks[from] <= LONGEST_BENT) {
        for (let layer = ranks[from] + 1; layer < ranks[to]; layer += 1) {
          const key = `${from} ${layer}`;
          if (!bends.has(key)) {
            const bend = { layer, width: BEND_WIDTH, above: [], below: [], bend: true };
            bends.set(key, bend);
            items.push(bend);
            join(points.at(-1), bend);
          }
          points.push(bends.get(key));
        }
        join(points.at(-1), items[to]);
      }
      points.push(items[to]);
      edges.push({ from, to, points });
    }
  });
  return { items, edges };
}

// 3. Each layer is sorted by the middle of what its items are joined with, downwards and upwards in turn.
function order(layers) {
  for (const layer of layers) layer.forEach((item, at) => { item.at = at; });
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      for (const item of layer) {
        const joined = down ? item.above : item.below;
        item.wish = joined.length ? joined.reduce((sum, each) => sum + each.at, 0) / joined.length : item.at;
      }
      layer.sort((a, b) => a.wish - b.wish || a.at - b.at);
      layer.forEach((item, at) => { item.at = at; });
    }
  }
}

// 4. Items move to the middle of what they are joined with, as far as their order and the gaps between them allow.
function place(layers) {
  for (const layer of layers) {
    let x = 0;
    for (const item of layer) { item.x = x + item.width / 2; x += item.width + NODE_GAP; }
    for (const item of layer) item.x -= x / 2;
  }
  for (let sweep = 0; sweep < 2 * SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const wishes = layer.map((item) => {
        const joined = (down ? item.above : item.below).map((each) => each.x).sort((a, b) => a - b);
        return joined.length ? (joined[(joined.length - 1) >> 1] + joined[joined.length >> 1]) / 2 : item.x;
      });
      separate(layer, wishes);
    }
  }
}

// The places nearest to the wishes, by least squares, that keep the order and the gaps: an isotonic regression.
function separate(layer, wishes) {
  const offsets = [];
  layer.forEach((item, at) => { offsets.push(at ? offsets[at - 1] + (layer[at - 1].width + item.width) / 2 + NODE_GAP : 0); });
  const pools = [];
  wishes.forEach((wish, at) => {
    pools.push({ sum: wish - offsets[at], count: 1 });
    while (pools.length > 1 && pools.at(-2).sum / pools.at(-2).count > pools.at(-1).sum / pools.at(-1).count) {
      const last = pools.pop();
      pools.at(-1).sum += last.sum;
      pools.at(-1).count += last.count;
    }
  });
  let at = 0;
  for (const pool of pools) for (let times = 0; times < pool.count; times += 1, at += 1) layer[at].x = pool.sum / pool.count + offsets[at];
}

// From box to box through the bends, vertical at each.
function edgePath(points) {
  const [first, ...rest] = points;
  let [x, y] = [first.x, first.y + NODE_HEIGHT];
  let path = `M${x.toFixed(1)} ${y}`;
  for (const point of rest) {
    const middle = (y + point.y) / 2;
    path += `C${x.toFixed(1)} ${middle} ${point.x.toFixed(1)} ${middle} ${point.x.toFixed(1)} ${point.y}`;
    [x, y] = [point.x, point.y];
    if (point.bend) { y += NODE_HEIGHT; path += `V${y}`; }
  }
  return path;
}
