import { base58 } from '@scure/base'
import { PublicKey } from '@solana/web3.js'
import { ASSOCIATED_TOKEN_PROGRAM } from './addresses.ts'

/** Size in bytes of a mint and of a token account without extensions (SPL Token's `state.rs`). */
export const MINT_BYTES = 82
export const TOKEN_ACCOUNT_BYTES = 165
/** Offset of the account kind in Token-2022 accounts with extensions. The kind 1 is a mint, 2 an account. */
const ACCOUNT_KIND_OFFSET = TOKEN_ACCOUNT_BYTES

const STATES = ['uninitialized', 'initialized', 'frozen']

/** The data of a mint. */
export type Mint = {
  mintAuthority: string | null
  supply: bigint
  decimals: number
  isInitialized: boolean
  freezeAuthority: string | null
}

/** The data of a token account. */
export type TokenAccount = {
  mint: string
  owner: string
  amount: bigint
  delegate: string | null
  state: string
  isNative: boolean
}

/** The associated token account of an owner for a mint. */
export function ataAddress(owner: string, mint: string, tokenProgram: string): string {
  const seeds = [owner, tokenProgram, mint].map((key) => base58.decode(key))
  return PublicKey.findProgramAddressSync(seeds, new PublicKey(ASSOCIATED_TOKEN_PROGRAM))[0].toBase58()
}

/** Reads a mint. Undefined if the data is not a mint. */
export function readMint(data: Uint8Array): Mint | undefined {
  if (data.length !== MINT_BYTES && data[ACCOUNT_KIND_OFFSET] !== 1) return undefined
  const bytes = Buffer.from(data)
  return {
    mintAuthority: optionalKey(bytes, 0),
    supply: bytes.readBigUInt64LE(36),
    decimals: bytes[44]!,
    isInitialized: bytes[45] === 1,
    freezeAuthority: optionalKey(bytes, 46),
  }
}

/** Writes a mint without extensions. */
export function writeMint(mint: Mint): Uint8Array {
  const bytes = Buffer.alloc(MINT_BYTES)
  writeOptionalKey(bytes, 0, mint.mintAuthority)
  bytes.writeBigUInt64LE(mint.supply, 36)
  bytes[44] = mint.decimals
  bytes[45] = mint.isInitialized ? 1 : 0
  writeOptionalKey(bytes, 46, mint.freezeAuthority)
  return bytes
}

/** Reads a token account. Undefined if the data is not a token account. */
export function readTokenAccount(data: Uint8Array): TokenAccount | undefined {
  if (data.length !== TOKEN_ACCOUNT_BYTES && data[ACCOUNT_KIND_OFFSET] !== 2) return undefined
  const bytes = Buffer.from(data)
  return {
    mint: base58.encode(bytes.subarray(0, 32)),
    owner: base58.encode(bytes.subarray(32, 64)),
    amount: bytes.readBigUInt64LE(64),
    delegate: optionalKey(bytes, 72),
    state: STATES[bytes[108]!] ?? 'uninitialized',
    isNative: bytes.readUInt32LE(109) === 1,
  }
}

/** Writes an initialized token account without a delegate. */
export function writeTokenAccount(account: Pick<TokenAccount, 'mint' | 'owner' | 'amount'>): Uint8Array {
  const bytes = Buffer.alloc(TOKEN_ACCOUNT_BYTES)
  bytes.set(base58.decode(account.mint), 0)
  bytes.set(base58.decode(account.owner), 32)
  bytes.writeBigUInt64LE(account.amount, 64)
  bytes[108] = 1
  return bytes
}

function optionalKey(bytes: Buffer, offset: number): string | null {
  return bytes.readUInt32LE(offset) === 1 ? base58.encode(bytes.subarray(offset + 4, offset + 36)) : null
}

function writeOptionalKey(bytes: Buffer, offset: number, key: string | null): void {
  if (key === null) return
  bytes.writeUInt32LE(1, offset)
  bytes.set(base58.decode(key), offset + 4)
}
