import { hash } from 'node:crypto'
import { base58 } from '@scure/base'
import { type PaymentIdentity, solanaPaymentKey } from '../../../../core/domain/payment.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import { lighthouseProgram, tokenProgramAddress } from '../../../../core/solana/addresses.ts'
import { verifyEd25519 } from '../../../../core/solana/ed25519.ts'
import { type Message, readMessage } from '../../../../core/solana/message.ts'
import {
  MAX_TRANSACTION_BYTES,
  readWireTransaction,
  sameBytes,
  type WireTransaction,
} from '../../../../core/solana/wire.ts'
import { decodeStrictBase64 } from '../../../../core/x402/header.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import { refuse, refuseUnread } from '../../refusals.ts'
import { reasons } from '../reasons.ts'
import type { AssetRule, SolanaRules } from './rules.ts'
import { readTransfer, type Transfer } from './transfer.ts'

/**
 * How long a block hash is valid, in ms. It is valid for 150 blocks of 400 ms, and half as much again allows for skipped slots. The
 * time is an estimate for waiting callers, because only the chain decides whether a transaction can still land.
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
      /** The token account that pays. */
      readonly source: string
      /** Cost of the transaction for the gateway's fee payer, in lamports. 0 if the payer pays the fee. */
      readonly feeLamports: bigint
      /** The base58 address of the account that pays the fee. It is a fee payer of the gateway, or the payer. */
      readonly feePayer: string
    }
  | Refusal

/**
 * Checks a Solana payment of scheme `exact` without the chain. The payment's one transfer has to pay the terms exactly, and nothing
 * else may happen in the transaction. The fee payer may lose no more than the capped fee, and the payer must have signed. If the
 * terms name the payer as fee payer and the rules allow that, the payer is the only signer. The check is synchronous and takes
 * about 0.1 ms, mostly for the signature. It never throws.
 *
 * Two payments with the same message are the same payment, because `identity.key` is computed from the message, not from
 * signatures.
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
  if (rule === undefined)
    return refuse(reasons.mintMismatch, 'This gateway does not accept the token of these terms.')

  const transaction = readTransaction(payment.payload)
  if ('ok' in transaction) return transaction
  const message = readMessage(transaction.message)
  if (message === undefined || message.requiredSignatures !== transaction.signatures.length) {
    return refuseUnread(
      reasons.undecodable,
      'The transaction must be a legacy or version 0 transaction without trailing bytes.',
    )
  }
  const isSelfPaid = isPaidByPayer(message, terms, rules)
  // The refusal of an unknown fee payer comes only after the payment is identified. The gateway may have charged this payment under
  // a fee payer that it no longer has, and the buyer then still gets the purchase.
  const otherFeePayer = isSelfPaid ? undefined : checkFeePayer(message, terms, rules)
  if (message.lookupTables > 0) {
    const why = 'The transaction must list all accounts itself, without lookup tables.'
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
      'payload.transaction must be the transaction as a base64 string.',
    )
  }
  const bytes =
    encoded.length > maxBase64Chars ? undefined : decodeStrictBase64(encoded, MAX_TRANSACTION_BYTES)
  const transaction = bytes === undefined ? undefined : readWireTransaction(bytes)
  return (
    transaction ??
    refuseUnread(
      reasons.undecodable,
      `payload.transaction must be a serialized transaction of at most ${MAX_TRANSACTION_BYTES} bytes in canonical base64.`,
    )
  )
}

/**
 * Whether the payer pays the fee instead of the gateway. Account 0 must then be the fee payer of the terms and no fee payer of the
 * gateway. The payer must be the only signer.
 */
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
 * Checks that account 0 is one of the gateway's fee payers, and that the terms name one of them if they name a fee payer. The two
 * may differ, because the buyer signed for the fee payer of an earlier 402.
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
      'The terms name a fee payer that this gateway does not use. Request a new 402.',
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
  // A transfer from an account to itself would succeed and move nothing.
  if (sameBytes(keys[transfer.source]!, destination)) {
    return refuse(reasons.recipientMismatch, 'The source must be another account than the destination.')
  }
  if (u64.test(terms.amount) && transfer.amount === BigInt(terms.amount)) return undefined
  return refuse(
    reasons.amountMismatch,
    `Expected a transfer of exactly ${terms.amount}, got ${transfer.amount}.`,
  )
}

/**
 * Checks the signers. Also checks that the fee payer takes part in nothing else, and that every account is listed once and used.
 */
function checkAccounts(
  transfer: Transfer,
  message: Message,
  rules: SolanaRules,
  isSelfPaid: boolean,
): Refusal | undefined {
  const { keys, instructions, requiredSignatures } = message
  const authority = keys[transfer.authority]!
  if (transfer.source === 0 || rules.feePayers.some(({ key }) => sameBytes(key, authority))) {
    return refuse(reasons.feePayerTransferring, 'The fee payer must pay the fee and nothing else.')
  }
  const used = new Uint8Array(keys.length)
  used[0] = 1
  for (const { program, accounts } of instructions) {
    used[program] = 1
    // Wallets add assertions about the fee payer's balance. An assertion cannot change the balance.
    const mayName = isSelfPaid || sameBytes(keys[program]!, lighthouseProgram)
    for (const account of accounts) {
      if (account === 0 && !mayName) {
        const where = 'an account of any instruction but a Lighthouse assertion'
        return refuse(reasons.feePayerInAccounts, `The fee payer must not be ${where}.`)
      }
      used[account] = 1
    }
  }
  // Each signature costs the fee payer 5,000 lamports. The transfer needs only one besides the fee payer's.
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
    return refuse(reasons.memoCount, `Expected exactly one memo, got ${memos.length}.`)
  }
  if (sameBytes(memos[0]!, Buffer.from(expected, 'utf8'))) return undefined
  return refuse(reasons.memoMismatch, 'The memo must be that of the terms, byte for byte.')
}

/** The payer's signature comes last and must be valid. The fee payer's slot before it is empty, because the gateway fills it. */
function checkSignatures({ signatures, message }: WireTransaction, { keys }: Message): Refusal | undefined {
  const payer = signatures.length - 1
  if (payer > 0 && signatures[0]!.some((byte) => byte !== 0)) {
    return refuse(reasons.signatureInvalid, "The fee payer's signature must be left empty (64 zero bytes).")
  }
  if (verifyEd25519(keys[payer]!, message, signatures[payer]!)) return undefined
  return refuse(reasons.signatureInvalid, "The payer's signature is not valid for the transaction.")
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
