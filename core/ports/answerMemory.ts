/**
 * The memory that answers take in this process while they wait to be charged or to be read: bounded over all stores and plugins, and
 * across reloads. Each sharer may hold as much as it leaves free, so that there is something left for the next one: alone half of
 * it, with another one a third each. A single answer is held whatever its size while nothing else is.
 */
export interface AnswerMemory {
  readonly totalBytes: number
  /** Bytes that are held now. */
  readonly heldBytes: number
  /**
   * An account for one answer; nothing is held yet. {@link HeldAnswer.release} has to follow.
   * @param sharer whose part it is of: a store's id, or a plugin's word for what is nobody's alone
   */
  open(sharer: string): HeldAnswer
}

/** What one answer may take. Take it before the bytes come, and before anything is charged. */
export interface HeldAnswer {
  readonly bytes: number
  /** Holds so many bytes in all. @returns false when there is no room: it holds what it held before */
  grow(bytes: number): boolean
  /**
   * Holds so many bytes in all once there is room. @returns false when none came in time, or it was released meanwhile: it
   * holds what it held before
   */
  growWithin(bytes: number, timeoutMs: number): boolean | Promise<boolean>
  /**
   * The answer is on its way to its reader, and kept elsewhere. One that takes long is cut off when others wait.
   * @param cutOff ends the sending, so that {@link release} follows
   */
  leaves(cutOff: () => void): void
  /** Gives everything back, and ends waiting. More often does nothing. */
  release(): void
}
