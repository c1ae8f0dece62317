import { zstdCompressSync } from 'node:zlib'
import { base58 } from '@scure/base'
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from './addresses.ts'
import { INVALID_PARAMS, INVALID_REQUEST, RpcError } from './rpcError.ts'
import type { RawAccount } from './svmAccount.ts'
import { readMint, readTokenAccount } from './tokenAccount.ts'

/** Maximum bytes that a node encodes as base58, because more would be slow. */
const MAX_BASE58_BYTES = 128
/**
 * A node writes the largest u64 for an account that is rent-exempt, as every account here is. A JavaScript number would be rounded.
 */
const RENT_EXEMPT = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON('18446744073709551615')

/** The form in which an account's data is requested. */
export type AccountConfig = { encoding?: string; dataSlice?: { offset: number; length: number } }

/** Returns the decimals of a mint, which parsed token accounts contain. */
export type DecimalsOf = (mint: string) => number

/** An account in the form of `getAccountInfo` and related methods. */
export function encodeAccount(account: RawAccount, config: AccountConfig, decimalsOf: DecimalsOf) {
  return {
    data: encodeData(account, config, decimalsOf),
    executable: account.executable,
    lamports: Number(account.lamports),
    owner: account.owner,
    rentEpoch: RENT_EXEMPT,
    space: account.data.length,
  }
}

/** An amount with its decimals, in the form of every token method. */
export function encodeTokenAmount(amount: bigint, decimals: number) {
  const digits = amount.toString().padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '')
  const uiAmountString = fraction === '' ? whole : `${whole}.${fraction}`
  return { amount: amount.toString(), decimals, uiAmount: Number(uiAmountString), uiAmountString }
}

function encodeData(account: RawAccount, config: AccountConfig, decimalsOf: DecimalsOf): unknown {
  const { encoding = 'binary', dataSlice } = config
  if (encoding === 'jsonParsed') {
    const parsed = parseData(account, decimalsOf)
    if (parsed !== undefined) return parsed
  }
  const data = dataSlice
    ? account.data.subarray(dataSlice.offset, dataSlice.offset + dataSlice.length)
    : account.data
  switch (encoding) {
    case 'binary':
      return toBase58(data)
    case 'base58':
      return [toBase58(data), encoding]
    case 'base64':
    case 'jsonParsed':
      return [Buffer.from(data).toString('base64'), 'base64']
    case 'base64+zstd':
      return [zstdCompressSync(data).toString('base64'), encoding]
    default:
      throw new RpcError(INVALID_PARAMS, `Invalid params: unknown variant \`${encoding}\`.`)
  }
}

function toBase58(data: Uint8Array): string {
  if (data.length <= MAX_BASE58_BYTES) return base58.encode(data)
  throw new RpcError(
    INVALID_REQUEST,
    'Encoded binary (base 58) data should be less than 128 bytes, please use Base64 encoding.',
  )
}

function parseData({ data, owner }: RawAccount, decimalsOf: DecimalsOf) {
  if (owner !== TOKEN_PROGRAM && owner !== TOKEN_2022_PROGRAM) return undefined
  const program = owner === TOKEN_PROGRAM ? 'spl-token' : 'spl-token-2022'
  const space = data.length
  const mint = readMint(data)
  if (mint !== undefined) {
    const info = { ...mint, supply: mint.supply.toString() }
    return { program, parsed: { type: 'mint', info }, space }
  }
  const account = readTokenAccount(data)
  if (account === undefined) return undefined
  const { isNative, mint: mintAddress, owner: holder, state, delegate, amount } = account
  const info = {
    isNative,
    mint: mintAddress,
    owner: holder,
    state,
    tokenAmount: encodeTokenAmount(amount, decimalsOf(mintAddress)),
    ...(delegate === null ? {} : { delegate }),
  }
  return { program, parsed: { type: 'account', info }, space }
}
