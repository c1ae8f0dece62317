import { hash } from 'node:crypto'
import { base58 } from '@scure/base'
import { type PaymentIdentity, solanaPaymentKey } from '../../../../core/domain/payment.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import { sameBytes } from '../../../../core/solana/bytes.ts'
import { verifyEd25519 } from '../../../../core/solana/ed25519.ts'
import { type Message, readMessage } from '../../../../core/solana/message.ts'
import { lighthouseProgram, tokenProgramAddress } from '../../../../core/solana/programs.ts'
import {
  MAX_TRANSACTION_BYTES,
  readWireTransaction,
  type WireTransaction,
} from '../../../../core/solana/wire.ts'
import { decodeStrictBase64 } from '../../../../core/x402/header.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import { refuse, refuseUnread } from '../../refuse.ts'
import { reasons } from '../reasons.ts'
import type { AssetRule, SolanaRules } from './solanaRules.ts'
import { readTransfer, type Transfer } from './transfer.ts'

/**
 * How long a block hash is taken, in ms: 150 blocks of 400 ms, and half as much again for skipped slots. It is an
 * estimate for whoever waits; whether a transaction can still land is asked of the chain.
 */
export const BLOCKHASH_LIFE_MS = 90_000

const u64 = /^(0|[1-9]\d{0,19})$/
const maxBase64Chars = Math.ceil(MAX_TRANSACTION_BYTES / 3) * 4

export type SolanaChecked =
  | {
      readonly ok: true
      readonly identity: PaymentIdentity
      readonly transaction: WireTransaction
      readonly transferAt: number
      /** Token account that the money comes from. */
      readonly source: string
      /** What the transaction costs us, in lamports; 0 where the payer pays the fee. */
      readonly feeLamports: bigint
      /** Who pays the fee, in base58: one of ours, or the payer. */
      readonly feePayer: string
    }
  | Refusal

/**
 * Checks a Solana payment of scheme `exact` for everything that can be known without the chain: that its one transfer
 * pays the terms exactly, that nothing else can happen in it, that the fee payer loses no more than the capped fee, and
 * that the payer signed. Where the terms name the payer as fee payer, and the rules allow it, nobody else signs.
 * Synchronous, about 0.1 ms, most of it the signature. Never throws, whatever the payload holds.
 *
 * Two payments with the same message are the same payment: `identity.key` is made of the message, not of signatures.
 *
 * @example
 * const rules = solanaRules({ network, feePayers: [feePayer], assets })
 * const checked = checkSolanaPayment(payment, terms, rules)
 * if (checked.ok) claim(checked.identity.key)
 */
export function checkSolanaPayment(
  payment: PaymentPayload,
  terms: PaymentRequirements,
  rules: SolanaRules,
): SolanaChecked {
  if (payment.scheme !== 'exact') return refuse(reasons.unsupportedScheme, 'The scheme must be exact.')
  if (
    terms.network !== rules.network ||
    !(payment.network === rules.network || payment.network === rules.v1Name)
  ) {
    return refuse(reasons.networkMismatch, `The payment must be for the network ${rules.network}.`)
  }
  const rule = rules.assets.get(terms.asset)
  if (rule === undefined) return refuse(reasons.mintMismatch, 'The token of these terms is not taken here.')

  const transaction = readTransaction(payment.payload)
  if ('ok' in transaction) return transaction
  const message = readMessage(transaction.message)
  if (message === undefined || message.requiredSignatures !== transaction.signatures.length) {
    return refuseUnread(
      reasons.undecodable,
      'The transaction must be a legacy or version 0 transaction without a byte too many.',
    )
  }
  const isSelfPaid = isPaidByPayer(message, terms, rules)
  // It may have been ours when this payment was charged: then it buys what it bought.
  const otherFeePayer = isSelfPaid ? undefined : checkFeePayer(message, terms, rules)
  if (message.lookupTables > 0) {
    const why = 'The transaction must name all accounts itself, without lookup tables.'
    return otherFeePayer ?? refuse(reasons.lookupTables, why)
  }
  const transfer = readTransfer(message, isSelfPaid ? undefined : rules)
  if ('reason' in transfer)
    return otherFeePayer ?? refuse(transfer.reason, `In the transaction, ${transfer.message}.`)
  const otherToken = checkToken(transfer, rule)
  if (otherToken !== undefined) return otherFeePayer ?? otherToken
  const wrong = otherFeePayer ?? checkTerms(transfer, message, terms, rule, rules)
  const invalid =
    checkAccounts(transfer, message, rules, isSelfPaid) ??
    checkMemo(transfer, terms) ??
    checkSignatures(transaction, message)
  if (invalid !== undefined) return wrong ?? invalid
  const payer = message.keys[transfer.authority]!
  const identity = identityOf(transaction.message, payer, transfer.amount, terms, rules)
  if (wrong !== undefined) return { ...wrong, identity }
  return {
    ok: true,
    identity,
    transaction,
    transferAt: transfer.at,
    source: base58.encode(message.keys[transfer.source]!),
    feeLamports: isSelfPaid ? 0n : transfer.feeLamports,
    feePayer: base58.encode(message.keys[0]!),
  }
}

function readTransaction(payload: Readonly<Record<string, unknown>>): WireTransaction | Refusal {
  const isObject = typeof payload === 'object' && payload !== null
  const encoded = isObject && Object.hasOwn(payload, 'transaction') ? payload['transaction'] : undefined
  if (typeof encoded !== 'string') {
    return refuseUnread(
      reasons.payloadTransaction,
      'payload.transaction must be a string: the transaction in base64.',
    )
  }
  const bytes =
    encoded.length > maxBase64Chars ? undefined : decodeStrictBase64(encoded, MAX_TRANSACTION_BYTES)
  const transaction = bytes === undefined ? undefined : readWireTransaction(bytes)
  return (
    transaction ??
    refuseUnread(
      reasons.undecodable,
      `payload.transaction must be a serialised transaction of at most ${MAX_TRANSACTION_BYTES} bytes in canonical base64.`,
    )
  )
}

/** Account 0 is whom the terms name, and none of ours, and nobody else signs: the fee is none of our business. */
function isPaidByPayer(
  { keys, requiredSignatures }: Message,
  { extra }: PaymentRequirements,
  rules: SolanaRules,
) {
  const named = extra['feePayer']
  return (
    rules.takesSelfPaid &&
    requiredSignatures === 1 &&
    !rules.feePayers.some(({ address }) => address === named) &&
    base58.encode(keys[0]!) === named
  )
}

/**
 * Account 0 is a fee payer of ours, and so is the one that the terms name, when they name one. Which of ours they name now is not
 * what counts: the buyer signed for the one that its 402 named.
 */
function checkFeePayer(
  message: Message,
  terms: PaymentRequirements,
  rules: SolanaRules,
): Refusal | undefined {
  const named = terms.extra['feePayer']
  if (named !== undefined && !rules.feePayers.some(({ address }) => address === named)) {
    return refuse(
      reasons.feePayerNotManaged,
      'The terms name a fee payer that does not settle here. Ask for a new 402.',
    )
  }
  if (rules.feePayers.some(({ key }) => sameBytes(key, message.keys[0]!))) return undefined
  return refuse(reasons.feePayerMismatch, 'The first account must be the feePayer that the terms name.')
}

function checkToken(transfer: Transfer, rule: AssetRule): Refusal | undefined {
  const { asset } = rule
  if (!sameBytes(transfer.program, rule.tokenProgram)) {
    const program = tokenProgramAddress[asset.program ?? 'token']
    return refuse(reasons.noTransfer, `${asset.symbol} is moved by the token program ${program}.`)
  }
  if (!sameBytes(transfer.mint, rule.mint)) {
    return refuse(reasons.mintMismatch, `The transfer must be of the mint ${asset.address}.`)
  }
  if (transfer.decimals !== asset.decimals) {
    return refuse(
      reasons.mintMismatch,
      `${asset.symbol} has ${asset.decimals} decimals, not ${transfer.decimals}.`,
    )
  }
}

function checkTerms(
  transfer: Transfer,
  { keys }: Message,
  terms: PaymentRequirements,
  rule: AssetRule,
  rules: SolanaRules,
): Refusal | undefined {
  const destination = rules.destinationOf(terms.payTo, rule)
  if (destination === undefined || !sameBytes(keys[transfer.destination]!, destination)) {
    return refuse(reasons.recipientMismatch, 'The destination must be the associated token account of payTo.')
  }
  // A transfer from an account to itself succeeds and moves nothing.
  if (sameBytes(keys[transfer.source]!, destination)) {
    return refuse(reasons.recipientMismatch, 'The source must be another account than the destination.')
  }
  if (u64.test(terms.amount) && transfer.amount === BigInt(terms.amount)) return undefined
  return refuse(
    reasons.amountMismatch,
    `Exactly ${terms.amount} is due, the transfer is of ${transfer.amount}.`,
  )
}

/** Who signs, that the fee payer takes part in nothing, and that every account is there once and for a use. */
function checkAccounts(
  transfer: Transfer,
  message: Message,
  rules: SolanaRules,
  isSelfPaid: boolean,
): Refusal | undefined {
  const { keys, instructions, requiredSignatures } = message
  const authority = keys[transfer.authority]!
  if (transfer.source === 0 || rules.feePayers.some(({ key }) => sameBytes(key, authority))) {
    return refuse(reasons.feePayerTransferring, 'The fee payer pays the fee and nothing else.')
  }
  const used = new Uint8Array(keys.length)
  used[0] = 1
  for (const { program, accounts } of instructions) {
    used[program] = 1
    // Wallets assert what the fee payer's balance is. An assertion can't change it.
    const mayName = isSelfPaid || sameBytes(keys[program]!, lighthouseProgram)
    for (const account of accounts) {
      if (account === 0 && !mayName) {
        const where = 'an account of any instruction but a Lighthouse assertion'
        return refuse(reasons.feePayerInAccounts, `The fee payer must not be ${where}.`)
      }
      used[account] = 1
    }
  }
  // Each signature costs the fee payer 5,000 lamports, and the transfer needs one beside its own.
  if (requiredSignatures > 2) {
    return refuse(reasons.excessiveSigners, 'Only the fee payer and the payer may sign.')
  }
  if (transfer.authority >= requiredSignatures) {
    return refuse(reasons.signatureInvalid, "The transfer's authority must sign the transaction.")
  }
  const seen = new Set<string>()
  for (let i = 0; i < keys.length; i++) {
    seen.add(Buffer.from(keys[i]!.buffer, keys[i]!.byteOffset, 32).toString('latin1'))
    if (used[i] === 0)
      return refuseUnread(reasons.undecodable, 'Every account must be used by an instruction.')
  }
  return seen.size === keys.length
    ? undefined
    : refuseUnread(reasons.undecodable, 'No account may be named twice.')
}

function checkMemo({ memos }: Transfer, terms: PaymentRequirements): Refusal | undefined {
  const expected = terms.extra['memo']
  if (typeof expected !== 'string' || expected === '') return undefined
  if (memos.length !== 1) {
    return refuse(reasons.memoCount, `Exactly one memo is expected, ${memos.length} came.`)
  }
  if (sameBytes(memos[0]!, Buffer.from(expected, 'utf8'))) return undefined
  return refuse(reasons.memoMismatch, 'The memo must be that of the terms, byte for byte.')
}

/** The payer's signature is the last one, and good. A fee payer's slot before it is empty: we fill it. */
function checkSignatures({ signatures, message }: WireTransaction, { keys }: Message): Refusal | undefined {
  const payer = signatures.length - 1
  if (payer > 0 && signatures[0]!.some((byte) => byte !== 0)) {
    return refuse(reasons.signatureInvalid, "The fee payer's signature must be left empty (64 zero bytes).")
  }
  if (verifyEd25519(keys[payer]!, message, signatures[payer]!)) return undefined
  return refuse(reasons.signatureInvalid, "The payer's signature does not fit the transaction.")
}

function identityOf(
  message: Uint8Array,
  payer: Uint8Array,
  amountAtomic: bigint,
  terms: PaymentRequirements,
  rules: SolanaRules,
): PaymentIdentity {
  return {
    key: solanaPaymentKey(rules.network, message),
    network: rules.network,
    asset: terms.asset,
    payer: base58.encode(payer),
    nonce: hash('sha256', message, 'hex'),
    payTo: terms.payTo,
    amountAtomic,
    validBeforeMs: rules.clock.now() + BLOCKHASH_LIFE_MS,
  }
}
