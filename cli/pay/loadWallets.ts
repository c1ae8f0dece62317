import { base58 } from '@scure/base'
import { type Buyer, UsageError } from '../../buyer/buyer.ts'
import { createEvmBuyer } from '../../buyer/chains/evmBuyer.ts'
import { createSolanaBuyer } from '../../buyer/chains/solanaBuyer.ts'
import type { Wallets } from '../../buyer/payOptions.ts'
import type { ChainFamily } from '../../core/domain/network.ts'
import { isObject, own, parseStrictJson } from '../../core/x402/strictJson.ts'
import { readPrivateFile } from './readPrivateFile.ts'

const expected =
  'Expected a 0x EVM key of 32 bytes, a Solana key of 64 bytes (base58 or a JSON array), or JSON {"evm": …, "solana": …}'

export interface WalletSources {
  readonly keyFile?: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly rpcUrl?: string
}

/**
 * Creates the wallets from a key file, or without one from `TOLLGATE_EVM_KEY` and `TOLLGATE_SOLANA_KEY`. Keys are never read
 * from arguments, because other users of the machine can see those. The file must be accessible to the user only (mode 0600).
 *
 * @throws {UsageError} The message never contains a key
 */
export async function loadWallets({ keyFile, env, rpcUrl }: WalletSources): Promise<Wallets> {
  const keys = keyFile === undefined ? keysOfEnv(env) : readKeys(await readPrivateFile(keyFile, 'key file'))
  const rpc = rpcUrl === undefined ? {} : { rpcUrl }
  const wallets: Partial<Record<ChainFamily, Buyer>> = {}
  if (keys.evm !== undefined) wallets.eip155 = evmWallet(keys.evm, rpc)
  if (keys.solana !== undefined) wallets.solana = solanaWallet(keys.solana, rpc)
  return wallets
}

interface Keys {
  readonly evm?: string
  readonly solana?: string | readonly unknown[]
}

function keysOfEnv(env: WalletSources['env']): Keys {
  const { TOLLGATE_EVM_KEY: evm = '', TOLLGATE_SOLANA_KEY: solana = '' } = env
  const array = solana.trim().startsWith('[') ? parseStrictJson(solana) : undefined
  if (array?.ok === false) throw new UsageError(`TOLLGATE_SOLANA_KEY is not readable. ${expected}.`)
  const value = array === undefined ? solana.trim() : (array.value as readonly unknown[])
  return { ...(evm.trim() !== '' && { evm: evm.trim() }), ...(solana.trim() !== '' && { solana: value }) }
}

function readKeys(text: string): Keys {
  if (text.startsWith('0x')) return { evm: text }
  if (!text.startsWith('{') && !text.startsWith('[')) return { solana: text }
  const parsed = parseStrictJson(text)
  if (!parsed.ok) throw new UsageError(`The key file is not readable. ${expected}.`)
  const { value } = parsed
  if (Array.isArray(value)) return { solana: value }
  const [evm, solana] = isObject(value) ? [own(value, 'evm'), own(value, 'solana')] : []
  const isEvm = evm === undefined || typeof evm === 'string'
  const isSolana = solana === undefined || typeof solana === 'string' || Array.isArray(solana)
  if (!isEvm || !isSolana) throw new UsageError(`The key file is not readable. ${expected}.`)
  return { ...(evm !== undefined && { evm }), ...(solana !== undefined && { solana }) }
}

function evmWallet(key: string, rpc: { rpcUrl?: string }): Buyer {
  if (!/^0x[0-9a-fA-F]{64}$/.test(key)) throw new UsageError(`The EVM key has the wrong form. ${expected}.`)
  try {
    return createEvmBuyer({ privateKey: key as `0x${string}`, ...rpc })
  } catch {
    throw new UsageError('The EVM key is not a valid secp256k1 key.')
  }
}

function solanaWallet(key: string | readonly unknown[], rpc: { rpcUrl?: string }): Buyer {
  try {
    return createSolanaBuyer({ secret: solanaBytes(key), ...rpc })
  } catch {
    throw new UsageError(`The Solana key has the wrong form, or its halves do not match. ${expected}.`)
  }
}

function solanaBytes(key: string | readonly unknown[]): Uint8Array {
  if (typeof key === 'string') return base58.decode(key)
  if (!key.every((byte) => Number.isInteger(byte) && (byte as number) >= 0 && (byte as number) < 256)) {
    throw new TypeError('not bytes')
  }
  return Uint8Array.from(key as number[])
}
