/**
 * This process's memory for responses that wait to be charged or to be read. All stores and plugins share it, and its limit stays
 * the same across reloads. A sharer may hold at most as many bytes as stay free, so that memory remains for the next sharer. Thus a
 * single sharer gets at most half of the memory, and each of two sharers at most a third. While nothing else is held, a single
 * response may have any size.
 */
export interface ResponseBuffer {
  readonly totalBytes: number
  /** Bytes held now. */
  readonly heldBytes: number
  /**
   * Registers one response, which holds no memory yet. The caller must later call {@link HeldResponse.release}.
   *
   * @param sharer whose share the response uses, which is a store's id, or a plugin's name if the response belongs to no store
   */
  open(sharer: string): HeldResponse
}

/** The memory of one response. Reserve it before the bytes arrive and before anything is charged. */
export interface HeldResponse {
  readonly bytes: number
  /** Sets the number of bytes that the response holds. @returns false if there is no room, so that the number stays unchanged */
  grow(bytes: number): boolean
  /**
   * Sets the number of bytes that the response holds, as soon as there is room.
   *
   * @returns false if there was no room within `timeoutMs`, or the memory was released meanwhile, so that the number stays
   *   unchanged
   */
  growWithin(bytes: number, timeoutMs: number): boolean | Promise<boolean>
  /**
   * Called when the gateway starts to send the response, which is also stored elsewhere. If the caller reads slowly while other
   * responses wait for memory, sending is cut off.
   *
   * @param cutOff stops sending, so that the sender calls {@link release}
   */
  leaves(cutOff: () => void): void
  /** Releases all memory of the response and ends pending waits. A second call does nothing. */
  release(): void
}
