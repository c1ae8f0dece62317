import { channelReasons } from '../../../../core/channels/reasons.ts'
import type { ChannelConfig, ChannelId } from '../../../../core/domain/channel.ts'
import { BATCH_SETTLEMENT_ADDRESS, PERMIT2_COLLECTOR_ADDRESS } from '../../../../core/domain/channelHashes.ts'
import type { DepositOutcome } from '../../../../core/ports/chains/channelChain.ts'
import type { ContractCall, Refusal, TransactOutcome } from '../../../../core/ports/chains/settler.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'
import type { Permit2Deposit } from '../../../../core/x402/channelPayment.ts'
import { refuse } from '../../refusals.ts'
import { AccountCode } from '../check/accountCode.ts'
import { judgeAllowancePermit, withAllowancePermit } from '../check/allowancePermit.ts'
import { type Authorization, recoverSigner, withEthereumV } from '../check/authorization.ts'
import { explainPermit2 } from '../check/paymentCalls.ts'
import { depositPermitDigest, permit2Separator } from '../check/permit2.ts'
import { readDeployment } from '../check/transferCalls.ts'
import { reasons } from '../reasons.ts'
import { permit2DepositCall } from './calls.ts'

/** The deposits into payment channels by Permit2, on one chain. */
export class Permit2Deposits {
  readonly #rpc: Rpc
  readonly #code: AccountCode
  readonly #separator: Uint8Array
  /** The last deposit of each payer that is in progress. */
  readonly #last = new Map<string, Promise<unknown>>()

  constructor(rpc: Rpc, chainId: number) {
    this.#rpc = rpc
    this.#code = new AccountCode(rpc)
    this.#separator = permit2Separator(chainId)
  }

  /**
   * Checks and makes a deposit. What can be checked without the chain is checked first. The simulation of the call shows the rest, such
   * as a used nonce, a missing allowance, and the signature of a contract wallet.
   *
   * @param transact simulates and sends the call
   * @throws if no node responds
   */
  async make(
    config: ChannelConfig,
    channelId: ChannelId,
    deposit: Permit2Deposit,
    transact: (call: ContractCall) => Promise<TransactOutcome>,
  ): Promise<DepositOutcome> {
    const fault = permitFault(config, channelId, deposit)
    if (fault !== undefined) return refusedAs(fault)
    const read = withAllowancePermit(
      { ok: true, authorization: authorizationOf(deposit) },
      deposit.permit2.allowance,
    )
    if (!read.ok) return refusedAs(read)
    const { authorization } = read
    const { allowance } = authorization.permit2!
    const tooLate = allowance && judgeAllowancePermit(allowance.deadline, Math.floor(Date.now() / 1_000))
    if (tooLate !== undefined) return refusedAs(tooLate)
    const { signature, isByKey } = this.#signatureOf(authorization, channelId)
    if (!isByKey && !(await this.#code.isContract(config.payer))) return refusedAs(wrongSignature)
    const call = permit2DepositCall(config, { ...deposit, signature }, allowance)
    const send = () => transact(call)
    // Any caller can name a contract wallet as the payer, so such a deposit delays no other.
    const outcome = await (isByKey ? this.#inTurn(config.payer, send) : send())
    if (outcome.status !== 'refused' || !outcome.isRevert) return outcome
    const cause = await explainPermit2(this.#rpc, config.token, authorization, outcome.message)
    return cause.reason === reasons.permit2Simulation ? outcome : refusedAs(cause)
  }

  /**
   * Waits for the payer's earlier deposits. Deposits into several channels may need the same allowance, or have the same permit of the
   * token, of which only one can land.
   */
  #inTurn(payer: string, send: () => Promise<TransactOutcome>): Promise<TransactOutcome> {
    const turn = (this.#last.get(payer) ?? Promise.resolve()).then(send)
    const ended = turn
      .catch(() => undefined)
      .finally(() => {
        if (this.#last.get(payer) === ended) this.#last.delete(payer)
      })
    this.#last.set(payer, ended)
    return turn
  }

  /** The signature as Permit2 gets it, and whether the payer's own key made it. */
  #signatureOf(authorization: Authorization, channelId: ChannelId) {
    const { from, signature, permit2 } = authorization
    const inner = readDeployment(signature)?.innerSignature ?? signature
    const ethereums = withEthereumV(inner)
    const digest = depositPermitDigest(this.#separator, authorization, permit2!, channelId)
    const isByKey = recoverSigner(digest, ethereums) === from
    return { signature: isByKey ? ethereums : inner, isByKey }
  }
}

/** Why a permit is not for this deposit. */
function permitFault(
  { payer, token }: ChannelConfig,
  channelId: ChannelId,
  { amount, permit2 }: Permit2Deposit,
): Refusal | undefined {
  if (permit2.spender !== PERMIT2_COLLECTOR_ADDRESS)
    return refuse(channelReasons.permit2Spender, `Expected the spender ${PERMIT2_COLLECTOR_ADDRESS}.`)
  if (permit2.token !== token)
    return refuse(channelReasons.token, `Expected a permit of the channel's token ${token}.`)
  if (permit2.amount !== amount)
    return refuse(channelReasons.permit2Amount, `Expected permitted.amount to be deposit.amount, ${amount}.`)
  if (permit2.channelId !== channelId)
    return refuse(channelReasons.channelId, `Expected witness.channelId to be ${channelId}.`)
  if (permit2.from !== payer)
    return refuse(channelReasons.permit2Signature, `Expected a permit of the channel's payer ${payer}.`)
}

/** The deposit in the form of other payments by Permit2, which move the money to the contract of the channels. */
const authorizationOf = ({ amount, validBefore, signature, permit2 }: Permit2Deposit): Authorization => ({
  from: permit2.from,
  to: BATCH_SETTLEMENT_ADDRESS,
  value: String(amount),
  validAfter: '0',
  validBefore: String(validBefore),
  nonce: String(permit2.nonce),
  signature,
  permit2: { token: permit2.token, spender: permit2.spender, facilitator: null },
})

const wrongSignature = refuse(
  channelReasons.permit2Signature,
  'Expected a signature by the payer over exactly this deposit. Sign the EIP-712 domain of Permit2 on this chain, with the channel as the witness. A contract wallet has to be deployed first.',
)

const refusedAs = ({ reason, message, transient, extra }: Refusal): DepositOutcome => ({
  status: 'refused',
  isRevert: transient !== true,
  message,
  reason,
  ...(extra !== undefined && { extra }),
})
