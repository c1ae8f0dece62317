import { base58 } from '@scure/base'
import { readAddress } from '../../../core/solana/address.ts'
import { readU32, readU64, sameBytes } from '../../../core/solana/bytes.ts'
import { type Message, readMessage } from '../../../core/solana/message.ts'
import { computeBudgetProgram } from '../../../core/solana/programs.ts'
import { MAX_TRANSACTION_BYTES, readWireTransaction } from '../../../core/solana/wire.ts'
import { decodeStrictBase64 } from '../../../core/x402/header.ts'
import type { TransactionRequest } from '../../effects/chainPlugin.ts'
import type { DecodeResult } from '../../effects/decoded.ts'
import type { Effect } from '../../effects/effect.ts'
import { finish } from '../../effects/finish.ts'
import { readInstructions } from './instructions.ts'

/**
 * Decodes an unsigned Solana transaction from base64: legacy or version 0, in its wire form with a slot for every
 * signature. Each field has one spelling and nothing may follow; our key must be one of the signers and its slot empty.
 * Signatures of others that are there already stay.
 *
 * The transaction does not name its cluster: a blockhash belongs to one, and only a node could tell.
 */
export function decodeTransaction(request: TransactionRequest): DecodeResult {
  const { chain, account, assets } = request
  const ours = readAddress(account)
  if (assets.chains.of(chain).family !== 'solana' || ours === undefined)
    throw new TypeError('Expected a Solana cluster and our address.')
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
  const place = message.keys.findIndex((key) => sameBytes(key, ours))
  if (place < 0 || place >= message.requiredSignatures)
    return no('Expected our account among the signers of the transaction.')
  if (isSigned(wire.signatures[place]!)) return no('Expected our signature slot to be empty.')

  const fee = readFee(message)
  const effects: Effect[] = [...readInstructions(message, { chain, assets })]
  if (fee.problem !== undefined)
    effects.unshift({ kind: 'opaque', target: 'the compute budget', reason: fee.problem })
  const missing = names
    .slice(0, message.requiredSignatures)
    .filter((_, i) => i !== place && !isSigned(wire.signatures[i]!))
  const decoded = finish(assets, {
    kind: 'transaction',
    chain,
    from: account,
    effects,
    fee: { amount: fee.lamports, asset: assets.native(chain), payer: names[0]! },
    warnings: warningsOf(effects, place, missing, account),
    frozenBytes: bytes,
    signingBytes: wire.message,
    signKind: 'solana-transaction',
    encoding: 'base64',
  })
  return { ok: true, decoded }
}

function warningsOf(
  effects: readonly Effect[],
  place: number,
  missing: readonly string[],
  account: string,
): string[] {
  const warnings = new Set<string>()
  if (place !== 0) warnings.add('Somebody else pays the fee, and decides whether and when it is sent.')
  for (const address of missing) warnings.add(`It also needs a signature by ${address}.`)
  for (const effect of effects) {
    if (effect.kind === 'opaque') warnings.add('A part of this was not understood: it may do anything.')
    if (effect.kind !== 'transfer' && effect.kind !== 'allowance') continue
    const owner = effect.kind === 'transfer' ? effect.from : effect.owner
    if (owner !== account) warnings.add('It moves money of another account.')
    if (!effect.asset.isPinned) warnings.add(`The token ${effect.asset.address} is not known.`)
    if (effect.kind === 'transfer' && effect.to === account)
      warnings.add('The recipient is this wallet itself.')
    if (effect.kind === 'allowance' && effect.isUnlimited) warnings.add('The allowance has no limit.')
  }
  return [...warnings]
}

/** An unsigned slot is all zeros, as every library writes it. */
const isSigned = (signature: Uint8Array): boolean => signature.some((byte) => byte !== 0)

const no = (message: string): DecodeResult => ({ ok: false, code: 'INVALID_TX', message })

const lamportsPerSignature = 5_000n
/** What an instruction may use when no limit is set, and the most that a transaction may (Agave, compute budget). */
const defaultUnits = 200_000n
const maxUnits = 1_400_000n
const microLamports = 1_000_000n

interface ReadFee {
  /** Lamports at most: signatures and the priority fee. */
  readonly lamports: bigint
  /** What could not be read, in words; the transaction is opaque then. */
  readonly problem?: string
}

/**
 * The most that a transaction costs its fee payer: 5,000 lamports a signature, and the price of a compute unit times the
 * limit, rounded up. The network charges for the limit, not for what is used. Instructions of the old priority fee and
 * repeated ones are not understood; neither are those with accounts or bytes beyond their form, which the network takes
 * all the same: the highest price and limit of all of them count.
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
  const lamports = lamportsPerSignature * BigInt(message.requiredSignatures) + priority
  return isOdd ? { lamports, problem: 'sets the compute budget in a way that is not known' } : { lamports }
}

const largest = (a: bigint | undefined, b: bigint): bigint => (a === undefined || b > a ? b : a)
