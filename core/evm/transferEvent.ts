import { topics } from './token.ts'

/** What a token says that it moved. The wallets are words of 32 bytes, hex without 0x, as `addressWord` writes them, whichever case a node writes. */
export interface TransferEvent {
  readonly from: string
  readonly to: string
  readonly amountAtomic: bigint
}

/** Reads the event Transfer(from, to, value) of ERC-20; undefined for any other, that of an ERC-721 token included. */
export function readTransferEvent(log: {
  readonly topics: readonly string[]
  readonly data: string
}): TransferEvent | undefined {
  const [name, from, to] = log.topics
  if (name?.toLowerCase() !== topics.transfer || from === undefined || to === undefined) return
  if (!/^0x[0-9a-f]{64}$/i.test(log.data)) return
  return {
    from: from.slice(2).toLowerCase(),
    to: to.slice(2).toLowerCase(),
    amountAtomic: BigInt(log.data),
  }
}
