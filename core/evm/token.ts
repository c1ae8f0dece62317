/** An address as the 32 bytes of a call or a topic, in lower-case hex without 0x. */
export const addressWord = (address: string): string => address.slice(2).toLowerCase().padStart(64, '0')

/** A number in decimal digits as the 32 bytes of a call, in hex without 0x. */
export const uintWord = (digits: string): string => BigInt(digits).toString(16).padStart(64, '0')

/** Bytes of any length, in hex with 0x, as the words of a call. The first word is their length, and zeros fill the last word. */
export function bytesWords(hex: string): string {
  const bytes = hex.slice(2)
  return uintWord(String(bytes.length / 2)) + bytes.padEnd(Math.ceil(bytes.length / 64) * 64, '0')
}

/** A contract call, which is a read, or a transaction that is simulated and then sent. */
export interface EvmCall {
  readonly to: string
  readonly data: string
}

/** Read-only calls of an EIP-3009 token, and the topics of its events. */
export const token = {
  /** authorizationState(address,bytes32): true if the nonce is used or canceled. */
  authorizationState: (asset: string, payer: string, nonce: string): EvmCall => ({
    to: asset,
    data: `0xe94a0102${addressWord(payer)}${nonce.slice(2)}`,
  }),
  balanceOf: (asset: string, owner: string): EvmCall => ({
    to: asset,
    data: `0x70a08231${addressWord(owner)}`,
  }),
  domainSeparator: (asset: string): EvmCall => ({ to: asset, data: '0x3644e515' }),
  decimals: (asset: string): EvmCall => ({ to: asset, data: '0x313ce567' }),
} as const

export const topics = {
  /** Transfer(address indexed from, address indexed to, uint256 value) */
  transfer: '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef',
  /** AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce) */
  authorizationUsed: '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5',
  /** AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce) */
  authorizationCanceled: '0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81',
} as const

/** An `eth_call` that reads. `block` is `latest` if absent. */
export const reading = (call: EvmCall, block = 'latest'): { method: string; params: unknown[] } => ({
  method: 'eth_call',
  params: [{ to: call.to, data: call.data }, block],
})

/** A word of 32 bytes as a number. Undefined if the result is shorter, such as `0x` for an address without code. */
export const wordOf = (result: unknown): bigint | undefined =>
  typeof result === 'string' && /^0x[0-9a-fA-F]{64,}$/.test(result) ? BigInt(result.slice(0, 66)) : undefined

/**
 * A transfer that a token's event reports. The wallets are words of 32 bytes in hex without 0x, in the case that `addressWord`
 * writes, even if the node uses another case.
 */
interface TransferEvent {
  readonly from: string
  readonly to: string
  readonly amountAtomic: bigint
}

/** Reads an ERC-20 event Transfer(from, to, value). Undefined for any other event, including the Transfer of an ERC-721 token. */
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
