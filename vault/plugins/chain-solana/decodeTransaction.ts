import { base58 } from '@scure/base'
import { computeBudgetProgram, readAddress } from '../../../core/solana/addresses.ts'
import { type Message, readMessage } from '../../../core/solana/message.ts'
import {
  MAX_TRANSACTION_BYTES,
  readU32,
  readU64,
  readWireTransaction,
  sameBytes,
} from '../../../core/solana/wire.ts'
import { decodeStrictBase64 } from '../../../core/x402/header.ts'
import type { TransactionRequest } from '../../effects/chainPlugin.ts'
import type { DecodeResult, Effect } from '../../effects/effect.ts'
import { finish } from '../../effects/plainWords.ts'
import { readInstructions } from './instructions.ts'

/**
 * Decodes an unsigned Solana transaction from base64. It is legacy or version 0, in its wire form with a slot for every
 * signature. Each field must have its canonical form, and no bytes may follow. The vault's key must be a signer with an empty
 * slot. Signatures of other signers stay.
 *
 * A transaction does not name its cluster. Its blockhash belongs to one, but only a node could tell which.
 */
export function decodeTransaction(request: TransactionRequest): DecodeResult {
  const { chain, account, assets } = request
  const ours = readAddress(account)
  if (assets.chains.of(chain).family !== 'solana' || ours === undefined)
    throw new TypeError("Expected a Solana cluster and the vault's address.")
  const { unsignedTx } = request
  const bytes =
    typeof unsignedTx === 'string' ? decodeStrictBase64(unsignedTx, MAX_TRANSACTION_BYTES) : undefined
  if (bytes === undefined)
    return no(`Expected a transaction in canonical base64 of at most ${MAX_TRANSACTION_BYTES} bytes.`)
  const wire = readWireTransaction(bytes)
  const message = wire === undefined ? undefined : readMessage(wire.message)
  if (wire === undefined || message === undefined)
    return no('Expected a legacy or version 0 transaction with its signature slots and no byte left over.')
  if (wire.signatures.length !== message.requiredSignatures)
    return no('Expected as many signature slots as the message has signers.')
  const names = message.keys.map((key) => base58.encode(key))
  if (new Set(names).size !== names.length) return no('Expected each account once in the message.')
  const index = message.keys.findIndex((key) => sameBytes(key, ours))
  if (index < 0 || index >= message.requiredSignatures)
    return no("Expected the vault's account among the signers of the transaction.")
  if (isSigned(wire.signatures[index]!)) return no("Expected the vault's signature slot to be empty.")

  const fee = readFee(message)
  const effects: Effect[] = [...readInstructions(message, { chain, assets })]
  if (fee.problem !== undefined)
    effects.unshift({ kind: 'opaque', target: 'the compute budget', reason: fee.problem })
  const missing = names
    .slice(0, message.requiredSignatures)
    .filter((_, i) => i !== index && !isSigned(wire.signatures[i]!))
  const decoded = finish(assets, {
    kind: 'transaction',
    chain,
    from: account,
    effects,
    fee: { amount: fee.lamports, asset: assets.native(chain), payer: names[0]! },
    warnings: warningsOf(effects, index, missing, account),
    frozenBytes: bytes,
    signingBytes: wire.message,
    signKind: 'solana-transaction',
    encoding: 'base64',
  })
  return { ok: true, decoded }
}

function warningsOf(
  effects: readonly Effect[],
  index: number,
  missing: readonly string[],
  account: string,
): string[] {
  const warnings = new Set<string>()
  if (index !== 0)
    warnings.add('Another account pays the fee, and decides whether and when the transaction is sent.')
  for (const address of missing) warnings.add(`The transaction also needs a signature by ${address}.`)
  for (const effect of effects) {
    if (effect.kind === 'opaque')
      warnings.add('A part of the request could not be decoded and may do anything.')
    if (effect.kind !== 'transfer' && effect.kind !== 'allowance') continue
    const owner = effect.kind === 'transfer' ? effect.from : effect.owner
    if (owner !== account) warnings.add('The request moves money of another account.')
    if (!effect.asset.isPinned) warnings.add(`The token ${effect.asset.address} is unknown.`)
    if (effect.kind === 'transfer' && effect.to === account)
      warnings.add('The recipient is this wallet itself.')
    if (effect.kind === 'allowance' && effect.isUnlimited) warnings.add('The allowance has no limit.')
  }
  return [...warnings]
}

/** Whether a signature slot is used. Every library fills an unused slot with zeros. */
const isSigned = (signature: Uint8Array): boolean => signature.some((byte) => byte !== 0)

const no = (message: string): DecodeResult => ({ ok: false, code: 'INVALID_TX', message })

const LAMPORTS_PER_SIGNATURE = 5_000n
/** Default compute units of an instruction. The next constant is the maximum of a transaction (Agave, compute budget). */
const defaultUnits = 200_000n
const maxUnits = 1_400_000n
const microLamports = 1_000_000n

interface ReadFee {
  /** Maximum fee in lamports: signatures and the priority fee. */
  readonly lamports: bigint
  /** Message about a part that could not be decoded. The transaction is opaque then. */
  readonly problem?: string
}

/**
 * The maximum that a transaction costs its fee payer. It is 5,000 lamports per signature, and the price of a compute unit times
 * the limit, rounded up. The network charges for the limit and not for the used units. A repeated instruction, one of the old
 * priority fee, and one with extra accounts or bytes are opaque. The network accepts them, so the highest price and limit
 * count.
 */
function readFee(message: Message): ReadFee {
  let limit: bigint | undefined
  let price = 0n
  let isOdd = false
  const seen = new Set<number>()
  const others = message.instructions.filter(
    ({ program }) => !sameBytes(message.keys[program] ?? new Uint8Array(0), computeBudgetProgram),
  )
  for (const instruction of message.instructions) {
    if (others.includes(instruction)) continue
    const { accounts, data } = instruction
    const [tag = -1] = data
    const length = { 1: 5, 2: 5, 3: 9, 4: 5 }[tag]
    if (length !== data.length || accounts.length !== 0 || seen.has(tag)) isOdd = true
    if (length === undefined || data.length < length) continue
    if (tag === 2) limit = largest(limit, BigInt(readU32(data, 1)))
    if (tag === 3) price = largest(price, readU64(data, 1))
    seen.add(tag)
  }
  const units = limit ?? defaultUnits * BigInt(others.length)
  const charged = units > maxUnits ? maxUnits : units
  const priority = (charged * price + microLamports - 1n) / microLamports
  const lamports = LAMPORTS_PER_SIGNATURE * BigInt(message.requiredSignatures) + priority
  return isOdd ? { lamports, problem: 'sets the compute budget in an unknown way' } : { lamports }
}

const largest = (a: bigint | undefined, b: bigint): bigint => (a === undefined || b > a ? b : a)
