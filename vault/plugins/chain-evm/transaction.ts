import { fromBytes, type Hex } from 'ox/Hex'
import { TipAboveFeeCapError } from 'ox/TxEnvelope'
import * as eip1559 from 'ox/TxEnvelopeEip1559'
import * as eip2930 from 'ox/TxEnvelopeEip2930'
import * as legacy from 'ox/TxEnvelopeLegacy'

/** Maximum nonce (EIP-2681). Clients limit gas to the same value. */
const max64 = 2n ** 64n - 1n
const max256 = 2n ** 256n - 1n

/** Limits of an access list. A list costs gas and moves nothing, and honest lists name only what one call touches. */
const accessListLimits = { entries: 256, keys: 1_024 } as const

/** An unsigned transaction, with numbers in wei or units of gas. Zero or empty fields may be omitted. */
export type EvmTransaction =
  | legacy.TxEnvelopeLegacy<false>
  | eip2930.TxEnvelopeEip2930<false>
  | eip1559.TxEnvelopeEip1559<false>

export type ReadTransaction =
  | { readonly ok: true; readonly transaction: EvmTransaction }
  | { readonly ok: false; readonly message: string }

const wrongForm = 'Expected each field in its shortest form and in range.'
const wrongTip = 'Expected the priority fee per gas to be at most the maximum fee per gas.'

/**
 * Parses an unsigned transaction: legacy (EIP-155), EIP-2930 or EIP-1559. The library also accepts other encodings, so the
 * result is encoded again and must give the same bytes. This requires strict RLP, integers without leading zeros, and exactly
 * the fields of the type. Signed transactions and the types of EIP-4844 and EIP-7702 have messages of their own.
 */
export function readTransaction(bytes: Uint8Array): ReadTransaction {
  const [type] = bytes
  if (type === undefined) return no('Expected a transaction, got no bytes.')
  if (type === 3) return no('Transactions with blobs (EIP-4844) are not supported.')
  if (type === 4)
    return no('Transactions that delegate the account to a contract (EIP-7702) are not supported.')
  if (type !== 1 && type !== 2 && type < 0xc0)
    return no('Expected a legacy, EIP-2930 or EIP-1559 transaction.')
  const hex = fromBytes(bytes)
  let transaction: EvmTransaction
  try {
    transaction = deserialize(hex, type)
  } catch (error) {
    return no(error instanceof TipAboveFeeCapError ? wrongTip : wrongForm)
  }
  if (transaction.r !== undefined) return no('Expected an unsigned transaction, got a signed one.')
  const written = writeTransaction(transaction)
  if (!written.ok) return written
  return written.hex === hex ? { ok: true, transaction } : no(wrongForm)
}

function deserialize(hex: Hex, type: number): EvmTransaction {
  if (type === 1) return eip2930.deserialize(hex as eip2930.Serialized)
  if (type === 2) return eip1559.deserialize(hex as eip1559.Serialized)
  return legacy.deserialize(hex)
}

/** Encodes an unsigned transaction or, with `signature`, the signed transaction. Its fields must be in range. */
export function writeTransaction(
  transaction: EvmTransaction,
  signature?: { readonly r: bigint; readonly s: bigint; readonly yParity: number },
): { readonly ok: true; readonly hex: Hex } | { readonly ok: false; readonly message: string } {
  const problem = problemOf(transaction)
  if (problem !== undefined) return no(problem)
  try {
    return { ok: true, hex: serialize(transaction, signature && { signature }) }
  } catch (error) {
    return no(error instanceof TipAboveFeeCapError ? wrongTip : wrongForm)
  }
}

function serialize(transaction: EvmTransaction, options: eip1559.serialize.Options | undefined): Hex {
  if (transaction.type === 'legacy') return legacy.serialize(transaction, options)
  return transaction.type === 'eip2930'
    ? eip2930.serialize(transaction, options)
    : eip1559.serialize(transaction, options)
}

/** Problems that the library does not detect. */
function problemOf(transaction: EvmTransaction): string | undefined {
  const { chainId = 0, nonce = 0n, gas = 0n, value = 0n } = transaction
  // The library computes the doubled chain id of an EIP-155 signature as a number, so it must be a safe integer.
  const isRightChain = Number.isSafeInteger(transaction.type === 'legacy' ? chainId * 2 + 36 : chainId)
  if (!isRightChain || nonce > max64 || gas > max64 || value > max256) return wrongForm
  if (transaction.type === 'legacy') return undefined
  if (transaction.type === 'eip1559') {
    const { maxFeePerGas = 0n, maxPriorityFeePerGas = 0n } = transaction
    if (maxPriorityFeePerGas > maxFeePerGas) return wrongTip
  }
  const { accessList = [] } = transaction
  const keys = accessList.reduce((sum, { storageKeys }) => sum + storageKeys.length, 0)
  return accessList.length > accessListLimits.entries || keys > accessListLimits.keys
    ? `Expected an access list of at most ${accessListLimits.entries} accounts and ${accessListLimits.keys} storage keys.`
    : undefined
}

const no = (message: string) => ({ ok: false, message }) as const
