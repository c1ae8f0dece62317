/**
 * Gives back what the start has filled and nobody needs any more: the young generation goes back to its smallest size, and
 * what is dead of the old one leaves. It takes a tenth of a second in which nothing else runs: for a process whose ports are
 * not open yet. Later V8 shrinks the young generation by itself, at the next scavenge of a process that allocates little.
 *
 * Does nothing where Node was not started with `--expose-gc`, as cli/bin.js does.
 */
export function giveBackHeap(): void {
  globalThis.gc?.({ type: 'major', flavor: 'last-resort' })
}
