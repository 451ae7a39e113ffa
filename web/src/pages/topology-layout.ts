// Where things stand in the picture. The library that decides it is loaded when it is needed.

export interface Edge {
  from: string;
  to: string;
  label: string;
  rate: number;
  dead: boolean;
}

export interface Point {
  x: number;
  y: number;
}

export interface Place extends Point {
  width: number;
  height: number;
}

interface Layout {
  places: Map<string, Place>;
  lines: Map<string, Point[]>;
  width: number;
  height: number;
}

const WIDTHS = { exchange: 190, queue: 224 };
const HEIGHT = 46;
const CHARACTER = 6.6;

export async function layOut(vertices: { id: string; kind: "exchange" | "queue" }[], edges: Edge[]): Promise<Layout> {
  const { default: dagre } = await import("@dagrejs/dagre");
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 26, ranksep: 90, marginx: 28, marginy: 28 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const one of vertices) graph.setNode(one.id, { width: WIDTHS[one.kind], height: HEIGHT });
  for (const edge of edges) {
    const width = Math.min(24, edge.label.length) * CHARACTER;
    graph.setEdge(edge.from, edge.to, edge.label ? { width, height: 14, labelpos: "c" } : {}, String(edge.dead));
  }
  dagre.layout(graph);
  const places = new Map(vertices.map((one) => [one.id, graph.node(one.id) as Place]));
  const lines = new Map(
    edges.map((edge) => [
      `${edge.from}\n${edge.to}\n${edge.dead}`,
      (graph.edge(edge.from, edge.to, String(edge.dead)) as { points: Point[] }).points,
    ]),
  );
  const { width = 0, height = 0 } = graph.graph();
  return { places, lines, width, height };
}
