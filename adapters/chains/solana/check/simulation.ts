import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import { RpcRefused } from '../../../../core/rpc/post.ts'
import { signatureBytes, type WireTransaction } from '../../../../core/solana/wire.ts'
import { refuse, refuseForNow, refuseUnread } from '../../refusals.ts'
import { reasons } from '../reasons.ts'
import { type Commitment, type Rpc, rpcCodes, type WithContext } from '../rpc/nodes.ts'
import { isSelfPaid } from './transfer.ts'

/**
 * The commitment of simulations, regardless of the commitment of settlements. It is not `finalized`, because finalized blocks do
 * not yet have the block hash that the buyer has just signed for.
 */
export const simulatedAt: Commitment = 'confirmed'

/** A transaction's error as the cluster returns it: a name, or an object with details. */
export type TransactionError = unknown

const frozen = 17
/** Errors of the token programs. */
const tokenErrors: ReadonlyMap<number, string> = new Map([
  [0, 'an account of the transfer is not rent exempt'],
  [1, 'the payer has too little of the token'],
  [3, 'an account of the transfer belongs to another mint'],
  [4, 'the payer may not move tokens of the source account'],
  [frozen, 'an account of the transfer is frozen'],
])

/**
 * Simulates a payment on the chain, in one call. The gateway sends the transaction without the fee payer's signature, because bytes
 * that could land may leave this process only after they are stored. The node does not check signatures, because the gateway has
 * already checked the payer's as strictly as a cluster does.
 *
 * A payer that pays the fee can send the transaction without the gateway. So such a transaction is simulated at the newest slot, to
 * find out whether it has landed.
 *
 * @returns if it would succeed, the slot at which the node had its block hash; null if the node does not return the slot
 * @throws {RpcUnreachable} when no node responds
 */
export async function simulatePayment(
  rpc: Rpc,
  transaction: WireTransaction,
  transferAt: number,
): Promise<{ ok: true; slot: number | null } | SimulationRefusal> {
  const isOwn = isSelfPaid(transaction)
  const bytes = Buffer.from(transaction.bytes).fill(0, 1, 1 + signatureBytes)
  try {
    const { context, value } = await rpc.call<WithContext<{ err: TransactionError }>>(
      'simulateTransaction',
      bytes.toString('base64'),
      {
        encoding: 'base64',
        commitment: isOwn ? 'processed' : simulatedAt,
        sigVerify: false,
        replaceRecentBlockhash: false,
      },
    )
    if (value.err !== null) return refusalOf(value.err, transferAt, isOwn)
    // The slot must be a number, because it is stored and compared. Otherwise the payment would stay open forever.
    const slot: unknown = context?.slot
    return { ok: true, slot: Number.isSafeInteger(slot) ? (slot as number) : null }
  } catch (error) {
    if (!(error instanceof RpcRefused)) throw error
    if (error.code === rpcCodes.invalidParams) {
      return refuseUnread(reasons.undecodable, 'The node cannot decode this transaction.')
    }
    return { ok: false, reason: reasons.simulationFailed, message: error.message, transient: true }
  }
}

export interface SimulationRefusal extends Refusal {
  /** The fault of a token account. The error does not tell whose account it is. */
  readonly account?: 'missing' | 'frozen'
}

/**
 * What a transaction error means for the payment.
 *
 * @param transferAt index of the transfer among the instructions
 * @param isOwn whether the payer pays the fee
 */
export function refusalOf(err: TransactionError, transferAt: number, isOwn: boolean): SimulationRefusal {
  const { kind, instruction, cause } = partsOf(err)
  switch (kind) {
    case 'BlockhashNotFound':
      return refuse(
        reasons.blockhashExpired,
        'The block hash of the transaction has expired. Sign a new payment.',
      )
    case 'AlreadyProcessed':
      return refuse(
        reasons.duplicate,
        'This transaction is on chain already, but not by this call. It may have moved your money. Check the transaction before you pay again.',
      )
    case 'AccountNotFound':
    case 'InsufficientFundsForFee':
    case 'InvalidAccountForFee':
      if (isOwn) return refuse(reasons.insufficientFunds, 'The payer has too little SOL for the network fee.')
      return ourFault('The fee payer of this server cannot pay the network fee now. Try again later.')
    case 'InsufficientFundsForRent':
      if (isOwn) return refuse(reasons.insufficientFunds, 'The payer would be left with too little SOL.')
      return ourFault('The fee payer of this server has too little SOL. Try again later.')
  }
  if (kind === 'InstructionError' && instruction === transferAt) {
    const custom = typeof cause === 'object' && cause !== null && 'Custom' in cause ? cause.Custom : undefined
    if (custom === 1 || cause === 'InsufficientFunds') {
      return refuse(reasons.insufficientFunds, 'The payer has too little of the token.')
    }
    if (
      cause === 'InvalidAccountData' ||
      cause === 'UninitializedAccount' ||
      cause === 'InvalidAccountOwner'
    ) {
      const message =
        'The token account of the payer or of payTo does not exist. Create it before the payment.'
      return { ...refuse(reasons.simulationFailed, message), account: 'missing' }
    }
    const words = typeof custom === 'number' ? tokenErrors.get(custom) : undefined
    if (words !== undefined) {
      const refusal = refuse(reasons.simulationFailed, `The transfer would fail: ${words}.`)
      return custom === frozen ? { ...refusal, account: 'frozen' } : refusal
    }
  }
  return refuse(reasons.simulationFailed, `The transaction would fail: ${describeError(err)}.`)
}

/** A transaction error in at most 200 characters, for messages and logs. */
export const describeError = (err: TransactionError): string =>
  (typeof err === 'string' ? err : String(JSON.stringify(err))).slice(0, 200)

function partsOf(err: TransactionError): { kind: string; instruction?: unknown; cause?: unknown } {
  if (typeof err === 'string') return { kind: err }
  if (typeof err !== 'object' || err === null) return { kind: '' }
  const [kind = '', detail] = Object.entries(err)[0] ?? []
  return Array.isArray(detail) ? { kind, instruction: detail[0], cause: detail[1] } : { kind }
}

const ourFault = (message: string) => refuseForNow(reasons.simulationFailed, message)
