import { addressWord } from './words.ts'

/** A contract call: what is read, or simulated and then sent. */
export interface EvmCall {
  readonly to: string
  readonly data: string
}

/** Calls of an EIP-3009 token that only read, and its events' topics. */
export const token = {
  /** authorizationState(address,bytes32): true when the nonce is used or cancelled. */
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

/** An `eth_call` that reads; `block` is `latest` unless told otherwise. */
export const reading = (call: EvmCall, block = 'latest'): { method: string; params: unknown[] } => ({
  method: 'eth_call',
  params: [{ to: call.to, data: call.data }, block],
})

/** A word of 32 bytes as a number; undefined for anything shorter, such as the `0x` of an address without code. */
export const wordOf = (result: unknown): bigint | undefined =>
  typeof result === 'string' && /^0x[0-9a-fA-F]{64,}$/.test(result) ? BigInt(result.slice(0, 66)) : undefined
