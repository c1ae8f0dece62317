/** Smaller pieces are copied together; an object for each would weigh more than what is in it. */
const SMALL_BYTES = 1_024
const BLOCK_BYTES = 16_384

/**
 * A body that is held as it comes, in pieces that somebody else cuts. It takes little more memory than it has bytes,
 * however it is cut: a body of single bytes would take a hundred times as much.
 */
export class Pieces {
  /** Of all pieces together. */
  bytes = 0
  readonly #whole: Buffer[] = []
  /** The last of the pieces, while it is a block that is not full yet. */
  #block: Buffer | null = null
  #blockUsed = 0

  push(piece: Buffer): void {
    this.bytes += piece.length
    // Most bodies are one piece.
    if (this.#whole.length === 0 && this.#block === null) return void this.#whole.push(piece)
    if (piece.length < SMALL_BYTES) return this.#gather(piece)
    this.#endBlock()
    // What it was cut from would stay in memory with it.
    const isMostOfIt = piece.length * 4 >= piece.buffer.byteLength
    this.#whole.push(isMostOfIt ? piece : Buffer.from(piece))
  }

  /** @param piece lent: somebody else's again when it returns */
  pushCopy(piece: Buffer): void {
    if (this.bytes > 0 && piece.length < SMALL_BYTES) return this.push(piece)
    const own = Buffer.allocUnsafeSlow(piece.length)
    piece.copy(own)
    this.push(own)
  }

  /** Everything in order; without a copy where it came in one piece. */
  join(): Buffer {
    this.#endBlock()
    return this.#whole.length === 1 ? this.#whole[0]! : Buffer.concat(this.#whole, this.bytes)
  }

  /** Buffers that are held. */
  get count(): number {
    return this.#whole.length + (this.#block === null ? 0 : 1)
  }

  #gather(piece: Buffer): void {
    if (this.#blockUsed + piece.length > BLOCK_BYTES) this.#endBlock()
    this.#block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES)
    this.#blockUsed += piece.copy(this.#block, this.#blockUsed)
  }

  #endBlock(): void {
    if (this.#block === null) return
    const isFull = this.#blockUsed * 2 > BLOCK_BYTES
    const used = this.#block.subarray(0, this.#blockUsed)
    this.#whole.push(isFull ? used : Buffer.from(used))
    this.#block = null
    this.#blockUsed = 0
  }
}
