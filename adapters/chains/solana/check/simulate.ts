import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import { signatureBytes, type WireTransaction } from '../../../../core/solana/wire.ts'
import { refuse, refuseForNow, refuseUnread } from '../../refuse.ts'
import { reasons } from '../reasons.ts'
import type { Rpc, WithContext } from '../rpc/createSolanaRpc.ts'
import { rpcCodes } from '../rpc/rpcCodes.ts'
import { isSelfPaid } from '../settle/cosign.ts'

export type Commitment = 'confirmed' | 'finalized'

/**
 * Where simulations are made, whatever commitment settlements wait for: finalized blocks do not know the block hash that
 * a buyer has signed for yet.
 */
export const simulatedAt: Commitment = 'confirmed'

/** A transaction's error as the cluster writes it: a name, or an object with details. */
export type TransactionError = unknown

const frozen = 17
/** Errors of the token programs. */
const tokenErrors: ReadonlyMap<number, string> = new Map([
  [0, 'an account of the transfer is not rent exempt'],
  [1, 'the payer has too little of the token'],
  [3, 'an account of the transfer is of another mint'],
  [4, 'the payer may not move tokens of the source account'],
  [frozen, 'an account of the transfer is frozen'],
])

/**
 * Asks the chain what a payment would do now, in one call.
 *
 * The transaction goes out without the first signature, that of the fee payer, and signatures are not checked there: the payer's was
 * checked before, as strictly as a cluster does. So the bytes that could land leave this process only after they were
 * stored, and a node that keeps what it sees can do nothing with these.
 *
 * One whose fee the payer pays can have landed without us, and then it is not known whose payment it was. So it is held
 * against the newest slot.
 *
 * @returns where it would go through, the slot at which the node knew its block hash; null where it does not say
 * @throws {RpcUnreachable} when no node answers
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
    // It is kept and compared with: by one that is no number the payment would stay open for ever.
    const slot: unknown = context?.slot
    return { ok: true, slot: Number.isSafeInteger(slot) ? (slot as number) : null }
  } catch (error) {
    if (!(error instanceof RpcRefused)) throw error
    if (error.code === rpcCodes.invalidParams) {
      return refuseUnread(reasons.undecodable, 'The node does not read this transaction.')
    }
    return { ok: false, reason: reasons.simulationFailed, message: error.message, transient: true }
  }
}

export interface SimulationRefusal extends Refusal {
  /** What is wrong with a token account; whose it is, the error does not say. */
  readonly account?: 'missing' | 'frozen'
}

/**
 * What a transaction error means for the payment.
 *
 * @param transferAt place of the transfer among the instructions
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
      return refuse(reasons.duplicate, 'This transaction is on chain already. Sign a new payment.')
    case 'AccountNotFound':
    case 'InsufficientFundsForFee':
    case 'InvalidAccountForFee':
      if (isOwn) return refuse(reasons.insufficientFunds, 'The payer has too little SOL for the network fee.')
      return ourFault('The fee payer of this server can not pay the network fee now. Try again later.')
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
        'The token account of the payer or of payTo does not exist. It has to be made before the payment.'
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

/** A transaction error in at most 200 characters, for people and logs. */
export const describeError = (err: TransactionError): string =>
  (typeof err === 'string' ? err : String(JSON.stringify(err))).slice(0, 200)

function partsOf(err: TransactionError): { kind: string; instruction?: unknown; cause?: unknown } {
  if (typeof err === 'string') return { kind: err }
  if (typeof err !== 'object' || err === null) return { kind: '' }
  const [kind = '', detail] = Object.entries(err)[0] ?? []
  return Array.isArray(detail) ? { kind, instruction: detail[0], cause: detail[1] } : { kind }
}

const ourFault = (message: string) => refuseForNow(reasons.simulationFailed, message)
