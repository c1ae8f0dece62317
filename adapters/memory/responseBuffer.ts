import { totalmem } from 'node:os'
import type { HeldResponse, ResponseBuffer } from '../../core/ports/responseBuffer.ts'

/** How long a reader may take for a response while other responses wait for memory, in ms. */
export const READ_MS = 30_000
const SWEEP_MS = 1_000
/** Buffered responses may use this fraction (1/4) of the memory. */
const PARTS = 4

/**
 * @param totalBytes by default a quarter of the memory of this machine or its container, divided by the number of processes that
 * share it
 */
export function createResponseBuffer(totalBytes?: number, processes = 1): ResponseBuffer {
  return new Memory(totalBytes ?? Math.floor(machineBytes() / PARTS / processes))
}

/** The memory of this machine or its container, in bytes. Without a control group, the limit is 0 or more than the machine has. */
function machineBytes(): number {
  const allowed = process.constrainedMemory()
  return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem()
}

interface Waiting {
  readonly response: BufferedResponse
  readonly bytes: number
  readonly granted: () => void
}

class Memory implements ResponseBuffer {
  heldBytes = 0
  readonly totalBytes: number
  readonly #bySharer = new Map<string, number>()
  readonly #waiting = new Set<Waiting>()
  /** An unordered array instead of a Map. core/payments/openCalls.ts explains why. */
  readonly #leaving: BufferedResponse[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(totalBytes: number) {
    this.totalBytes = totalBytes
  }

  open(sharer: string): BufferedResponse {
    return new BufferedResponse(this, sharer)
  }

  take(response: BufferedResponse, bytes: number): boolean {
    const more = bytes - response.bytes
    if (more <= 0) return true
    const held = this.heldBytes + more
    const ofSharer = (this.#bySharer.get(response.sharer) ?? 0) + more
    const isAlone = this.heldBytes === response.bytes
    if (!isAlone && ofSharer > this.totalBytes - held) return false
    this.heldBytes = held
    this.#bySharer.set(response.sharer, ofSharer)
    return true
  }

  wait(waiting: Waiting): void {
    this.#waiting.add(waiting)
    this.#timer ??= setInterval(() => this.makeRoom(performance.now()), SWEEP_MS).unref()
  }

  stopWaiting(waiting: Waiting): void {
    if (!this.#waiting.delete(waiting) || this.#waiting.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  leave(response: BufferedResponse): void {
    response.index = this.#leaving.push(response) - 1
  }

  release(response: BufferedResponse): void {
    if (response.index !== -1) this.#left(response)
    if (response.bytes === 0) return
    this.heldBytes -= response.bytes
    const left = this.#bySharer.get(response.sharer)! - response.bytes
    if (left === 0) this.#bySharer.delete(response.sharer)
    else this.#bySharer.set(response.sharer, left)
    this.#grant()
  }

  /**
   * Disconnects readers that take too long if other responses need the memory.
   * @param nowMs by `performance.now()`
   */
  makeRoom(nowMs: number): void {
    let wanted = 0
    for (const { response, bytes } of this.#waiting) wanted += bytes - response.bytes
    for (const response of this.#leaving.toSorted((a, b) => a.sinceMs - b.sinceMs)) {
      if (wanted <= 0 || nowMs - response.sinceMs < READ_MS) return
      wanted -= response.bytes
      response.cutOff!()
    }
  }

  #left(response: BufferedResponse): void {
    const last = this.#leaving.pop()!
    if (last === response) return
    this.#leaving[response.index] = last
    last.index = response.index
  }

  /** Gives memory to the waiting response that has the least. */
  #grant(): void {
    if (this.#waiting.size === 0) return
    const held = ({ response }: Waiting) => this.#bySharer.get(response.sharer) ?? 0
    for (const waiting of [...this.#waiting].sort((a, b) => held(a) - held(b))) {
      if (waiting.response.grow(waiting.bytes)) waiting.granted()
    }
  }
}

class BufferedResponse implements HeldResponse {
  bytes = 0
  /** Index of the response in the list of leaving responses. -1 if it is not in the list. */
  index = -1
  /** When sending began, by `performance.now()`. */
  sinceMs = 0
  /** Disconnects a reader that takes too long. */
  cutOff: (() => void) | null = null
  #isOver = false
  #endWait: (() => void) | null = null
  readonly sharer: string
  readonly #memory: Memory

  constructor(memory: Memory, sharer: string) {
    this.#memory = memory
    this.sharer = sharer
  }

  grow(bytes: number): boolean {
    if (this.#isOver || !this.#memory.take(this, bytes)) return false
    this.bytes = Math.max(this.bytes, bytes)
    return true
  }

  growWithin(bytes: number, timeoutMs: number): boolean | Promise<boolean> {
    if (this.grow(bytes)) return true
    if (this.#isOver) return false
    return new Promise((resolve) => {
      const end = (isHeld: boolean) => {
        clearTimeout(timer)
        this.#endWait = null
        this.#memory.stopWaiting(waiting)
        resolve(isHeld)
      }
      const timer = setTimeout(() => end(false), timeoutMs)
      const waiting: Waiting = { response: this, bytes, granted: () => end(true) }
      this.#endWait = () => end(false)
      this.#memory.wait(waiting)
    })
  }

  leaves(cutOff: () => void): void {
    if (this.#isOver) return
    this.sinceMs = performance.now()
    this.cutOff = cutOff
    // Two plugins may send the response, which calls this method twice. The time counts from the last call.
    if (this.index === -1) this.#memory.leave(this)
  }

  release(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#endWait?.()
    this.#memory.release(this)
    this.bytes = 0
  }
}
