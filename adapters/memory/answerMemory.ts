import { totalmem } from 'node:os'
import type { AnswerMemory, HeldAnswer } from '../../core/ports/answerMemory.ts'

/** A reader may take so long for an answer while others wait for the memory. */
export const READ_MS = 30_000
const LOOK_MS = 1_000
/** Of the memory that there is, held answers may take one part in so many. */
const PARTS = 4

/** @param totalBytes absent: a quarter of what this machine or its container has, divided by the processes that share it */
export function createAnswerMemory(totalBytes?: number, processes = 1): AnswerMemory {
  return new Memory(totalBytes ?? Math.floor(machineBytes() / PARTS / processes))
}

/** What a control group allows is 0, or more than the machine has, where there is none. */
function machineBytes(): number {
  const allowed = process.constrainedMemory()
  return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem()
}

interface Waiting {
  readonly answer: Answer
  readonly bytes: number
  readonly granted: () => void
}

class Memory implements AnswerMemory {
  heldBytes = 0
  readonly totalBytes: number
  readonly #bySharer = new Map<string, number>()
  readonly #waiting = new Set<Waiting>()
  /** In no order, and no Map, for the reason that stands in core/payments/openCalls.ts. */
  readonly #leaving: Answer[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(totalBytes: number) {
    this.totalBytes = totalBytes
  }

  open(sharer: string): Answer {
    return new Answer(this, sharer)
  }

  take(answer: Answer, bytes: number): boolean {
    const more = bytes - answer.bytes
    if (more <= 0) return true
    const held = this.heldBytes + more
    const ofSharer = (this.#bySharer.get(answer.sharer) ?? 0) + more
    const isAlone = this.heldBytes === answer.bytes
    if (!isAlone && ofSharer > this.totalBytes - held) return false
    this.heldBytes = held
    this.#bySharer.set(answer.sharer, ofSharer)
    return true
  }

  wait(waiting: Waiting): void {
    this.#waiting.add(waiting)
    this.#timer ??= setInterval(() => this.makeRoom(performance.now()), LOOK_MS).unref()
  }

  stopWaiting(waiting: Waiting): void {
    if (!this.#waiting.delete(waiting) || this.#waiting.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  leave(answer: Answer): void {
    answer.index = this.#leaving.push(answer) - 1
  }

  giveBack(answer: Answer): void {
    if (answer.index !== -1) this.#left(answer)
    if (answer.bytes === 0) return
    this.heldBytes -= answer.bytes
    const left = this.#bySharer.get(answer.sharer)! - answer.bytes
    if (left === 0) this.#bySharer.delete(answer.sharer)
    else this.#bySharer.set(answer.sharer, left)
    this.#grant()
  }

  /** Cuts readers off who take too long, as far as somebody needs it. @param nowMs by `performance.now()` */
  makeRoom(nowMs: number): void {
    let wanted = 0
    for (const { answer, bytes } of this.#waiting) wanted += bytes - answer.bytes
    for (const answer of this.#leaving.toSorted((a, b) => a.sinceMs - b.sinceMs)) {
      if (wanted <= 0 || nowMs - answer.sinceMs < READ_MS) return
      wanted -= answer.bytes
      answer.cutOff!()
    }
  }

  #left(answer: Answer): void {
    const last = this.#leaving.pop()!
    if (last === answer) return
    this.#leaving[answer.index] = last
    last.index = answer.index
  }

  /** The sharer that holds least is next. */
  #grant(): void {
    if (this.#waiting.size === 0) return
    const held = ({ answer }: Waiting) => this.#bySharer.get(answer.sharer) ?? 0
    for (const waiting of [...this.#waiting].sort((a, b) => held(a) - held(b))) {
      if (waiting.answer.grow(waiting.bytes)) waiting.granted()
    }
  }
}

class Answer implements HeldAnswer {
  bytes = 0
  /** Where it stands among those that leave; -1 before. */
  index = -1
  /** By `performance.now()`: since when it leaves. */
  sinceMs = 0
  /** Ends whoever takes too long for it. */
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
      const waiting: Waiting = { answer: this, bytes, granted: () => end(true) }
      this.#endWait = () => end(false)
      this.#memory.wait(waiting)
    })
  }

  leaves(cutOff: () => void): void {
    if (this.#isOver) return
    this.sinceMs = performance.now()
    this.cutOff = cutOff
    // Once more where two plugins see to it: the time counts from the last one.
    if (this.index === -1) this.#memory.leave(this)
  }

  release(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#endWait?.()
    this.#memory.giveBack(this)
    this.bytes = 0
  }
}
