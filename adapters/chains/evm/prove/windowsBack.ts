import { setTimeout as sleep } from 'node:timers/promises'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import { type RpcRefused, RpcUnreachable } from '../../../../core/rpc/rpcError.ts'

/**
 * Blocks of the first window. Providers cap what one `eth_getLogs` covers, the common ones at 500 to 10,000: halves of this come
 * close to each.
 */
const MOST_BLOCKS = 8_000
/** So many windows that were answered, one after the other, before a wider one is tried again. */
const WIDER_AFTER = 4
/** How long to wait for a node that says it is busy, or says nothing: each time for twice as long, up to the most. */
const WAIT_MS = 250
const MOST_WAIT_MS = 4_000
/** Before a single block that is not answered is asked for once more. */
const SINGLE_WAIT_MS = 2_000
/** So often a node that answers nothing at all is asked again. */
const MOST_TRIES = 5

/** What came of reading a window: a node's fault may be that it asks for too much. */
export type WindowRead<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: RpcRefused | RpcUnreachable }

export interface Window<T> {
  readonly from: number
  readonly to: number
  readonly value: T
}

/**
 * Reads blocks in windows, the newest first. A window that a node does not answer is read in halves, whichever way the node
 * refuses it: limits differ in blocks, events, bytes and seconds, and in how they are said. A node that answers nothing else
 * either is waited for, and then given up.
 *
 * @throws {RpcRefused} {RpcUnreachable} for a single block that is not answered, and when no node answers
 */
export async function* windowsBack<T>(
  rpc: Rpc,
  newest: number,
  oldest: number,
  read: (from: number, to: number) => Promise<WindowRead<T>>,
): AsyncGenerator<Window<T>> {
  let width = MOST_BLOCKS
  let widerAfter = WIDER_AFTER
  let answered = 0
  let isWider = false
  let faults = 0
  let singles = 0
  for (let to = newest; to >= oldest; ) {
    const from = Math.max(oldest, to - width + 1)
    const found = await read(from, to)
    if (found.ok) {
      yield { from, to, value: found.value }
      to = from - 1
      faults = singles = 0
      isWider = ++answered >= widerAfter && width < MOST_BLOCKS
      if (!isWider) continue
      width = Math.min(MOST_BLOCKS, 2 * width)
      answered = 0
      continue
    }
    // A limit that stays where it is is not run into every few windows.
    if (isWider) widerAfter *= 2
    isWider = false
    // Too much asked for, which halves are the answer to, or too often.
    if (found.error instanceof RpcUnreachable) await sleep(waitMs(faults++))
    await whenItAnswers(rpc, found.error)
    if (from === to && ++singles > 1) throw found.error
    // A node behind others may not have come to the newest block yet.
    if (from === to) await sleep(SINGLE_WAIT_MS)
    width = Math.ceil((to - from + 1) / 2)
    answered = 0
  }
}

const waitMs = (faults: number): number => Math.min(MOST_WAIT_MS, WAIT_MS * 2 ** faults)

/** @throws the fault when no node answers the least of questions */
async function whenItAnswers(rpc: Rpc, fault: Error): Promise<void> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    try {
      await rpc.call('eth_blockNumber')
      return
    } catch {
      await sleep(waitMs(tries))
    }
  }
  throw fault
}
