// Mouse, fingers and keys of a timeline. The wheel scrolls its rows as everywhere; with Ctrl it zooms, sideways it pans.

import { timeAt } from "./draw.js";

const MOVED_PX = 4;
const WHEEL = 0.002;

export class Gestures {
  constructor(timeline) {
    this.timeline = timeline;
    this.pointers = new Map();
    const element = timeline.scroll;
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    element.addEventListener("dblclick", (event) => timeline.zoom(0.5, this.timeOf(event)));
    element.addEventListener("pointerdown", (event) => this.down(event));
    element.addEventListener("pointermove", (event) => this.moved(event));
    element.addEventListener("pointerup", (event) => this.up(event));
    for (const name of ["pointercancel", "lostpointercapture"]) element.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    element.addEventListener("pointerleave", () => timeline.hover(null));
  }

  point(event) {
    const box = this.timeline.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  timeOf(event) {
    return timeAt(this.timeline.scene(), this.point(event).x);
  }

  wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.timeline.zoom(Math.exp(event.deltaY * WHEEL * (event.deltaMode ? 16 : 1)), this.timeOf(event));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.timeline.panPixels(event.deltaX || event.deltaY);
    }
  }

  down(event) {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, { ...this.point(event), moved: 0 });
    event.currentTarget.setPointerCapture(event.pointerId);
  }

  moved(event) {
    const { x, y } = this.point(event);
    const pointer = this.pointers.get(event.pointerId);
    if (!pointer) {
      if (event.pointerType === "mouse") this.timeline.hover(x, y);
      return;
    }
    const [dx, dy] = [x - pointer.x, y - pointer.y];
    const before = this.spread();
    pointer.moved += Math.abs(dx) + Math.abs(dy);
    Object.assign(pointer, { x, y });
    if (this.pointers.size === 2) {
      this.timeline.zoom(before / Math.max(this.spread(), 1), timeAt(this.timeline.scene(), this.middle()));
    } else if (pointer.moved > MOVED_PX) {
      this.timeline.hover(null);
      this.timeline.panPixels(-dx);
      this.timeline.scroll.scrollTop -= dy;
    }
  }

  up(event) {
    const pointer = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (!pointer || pointer.moved > MOVED_PX) return;
    const found = this.timeline.at(pointer.x, pointer.y);
    if (found) this.timeline.select(found.row, found.item);
    else this.timeline.clear();
  }

  spread() {
    const [a, b] = [...this.pointers.values()];
    return b ? Math.max(Math.abs(a.x - b.x), 1) : 1;
  }

  middle() {
    const [a, b] = [...this.pointers.values()];
    return (a.x + b.x) / 2;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const timeline = this.timeline;
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const acts = {
      ArrowLeft: () => (event.shiftKey ? timeline.panPixels(-80) : timeline.step(-1)),
      ArrowRight: () => (event.shiftKey ? timeline.panPixels(80) : timeline.step(1)),
      ArrowUp: () => timeline.stepRow(-1),
      ArrowDown: () => timeline.stepRow(1),
      Home: () => timeline.stepEnd(false),
      End: () => timeline.stepEnd(true),
      "+": () => timeline.zoom(0.5),
      "=": () => timeline.zoom(0.5),
      "-": () => timeline.zoom(2),
      0: () => timeline.fit(),
      Enter: () => timeline.detail.element.focus(),
      Escape: () => timeline.clear(),
    };
    if (!acts[event.key] || (event.shiftKey && sideways === undefined && event.key !== "+")) return;
    event.preventDefault();
    acts[event.key]();
  }
}
