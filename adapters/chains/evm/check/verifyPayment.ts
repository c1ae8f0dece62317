import { reading, token, wordOf } from '../../../../core/evm/token.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import type { Rpc, RpcCall } from '../../../../core/rpc/rpc.ts'
import type { RpcRefused } from '../../../../core/rpc/rpcError.ts'
import { refuse, refuseForNow, sumInFlight } from '../../refuse.ts'
import { reasons } from '../reasons.ts'
import { isRevert } from '../rpc/isRevert.ts'
import type { Fees } from '../settle/fees.ts'
import type { PaymentCall } from '../settle/paymentCalls.ts'
import type { AccountCode } from './accountCode.ts'
import type { Authorization } from './authorization.ts'

export interface VerifyOptions {
  readonly rpc: Rpc
  readonly code: AccountCode
  /** Whether it matters if the payer is a plain account: then that is asked along, and remembered. */
  readonly asksPayersCode: () => boolean
}

/**
 * Asks the chain whether exactly this transaction would succeed now.
 *
 * @param from who will send the transaction, or would now
 * @param aheadAtomic what the payer's other payments on their way will take of its balance
 */
export type VerifyPayment = (
  from: string,
  payment: Pick<PaymentCall, 'call' | 'gas' | 'authorization'>,
  asset: string,
  fees: Fees,
  aheadAtomic: bigint,
) => Promise<{ readonly ok: true } | Refusal>

/**
 * Makes the check against the chain: one simulation of the very call that would be sent, from the settling account,
 * with the very gas and fees, so that a contract wallet sees what it will see. It may tell the two apart all the same, by
 * the block's number if by nothing else: what that can cost is bounded by the budgets. Only when the simulation fails
 * are nonce and balance read, to say why. A token is looked at once, because a call to an address without code succeeds.
 */
export function createVerifyPayment(options: VerifyOptions): VerifyPayment {
  const { rpc, code, asksPayersCode } = options
  const contracts = new Set<string>()

  return async (from, { call, gas, authorization }, asset, fees, aheadAtomic) => {
    const simulation = {
      method: 'eth_call',
      params: [
        {
          from,
          to: call.to,
          data: call.data,
          gas: hex(gas),
          maxFeePerGas: hex(fees.maxFeePerGas),
          maxPriorityFeePerGas: hex(fees.maxPriorityFeePerGas),
        },
        'latest',
      ],
    }
    try {
      const isKnown = contracts.has(asset)
      const calls: RpcCall[] = [simulation]
      if (!isKnown) calls.push(codeOf(asset))
      const asksPayer = asksPayersCode() && code.remembered(authorization.from) === undefined
      if (asksPayer) calls.push(codeOf(authorization.from))
      if (aheadAtomic > 0n) calls.push(reading(token.balanceOf(asset, authorization.from)))
      const [simulated, ...others] = await rpc.batch(calls)
      if (!isKnown) {
        const tokens = others.shift()
        if (!tokens?.ok || typeof tokens.result !== 'string') return unavailable
        if (tokens.result === '0x') return refuse(reasons.notDeployed, `There is no token at ${asset}.`)
        contracts.add(asset)
      }
      if (asksPayer) {
        const payers = others.shift()
        if (payers?.ok && typeof payers.result === 'string') code.note(authorization.from, payers.result)
      }
      if (simulated!.ok) {
        const [balance] = others
        if (balance === undefined) return { ok: true }
        const atomic = balance.ok ? wordOf(balance.result) : undefined
        if (atomic === undefined) return unavailable
        return atomic >= aheadAtomic + BigInt(authorization.value) ? { ok: true } : sumInFlight
      }
      if (!isRevert(simulated!.error)) return unavailable
      return await explain(rpc, asset, authorization, simulated!.error)
    } catch {
      return unavailable
    }
  }
}

const hex = (value: number | bigint): string => `0x${value.toString(16)}`

const codeOf = (address: string) => ({ method: 'eth_getCode', params: [address, 'latest'] })

const unavailable = refuseForNow(
  reasons.verifyFault,
  'The chain can not be asked now. Try again with the same payment; nothing was charged.',
)

async function explain(
  rpc: Rpc,
  asset: string,
  authorization: Authorization,
  error: RpcRefused,
): Promise<Refusal> {
  const [used, balance] = await rpc.batch([
    reading(token.authorizationState(asset, authorization.from, authorization.nonce)),
    reading(token.balanceOf(asset, authorization.from)),
  ])
  // A node that can't run this read says nothing about the token or the payment.
  if (!used!.ok && !isRevert(used!.error)) return unavailable
  const isUsed = used!.ok ? wordOf(used!.result) : undefined
  if (isUsed === undefined)
    return refuse(reasons.notSupported, `The token ${asset} does not answer EIP-3009.`)
  if (isUsed !== 0n) return refuse(reasons.nonceUsed, 'The nonce of this authorization is used on chain.')
  const atomic = balance?.ok ? wordOf(balance.result) : undefined
  if (atomic !== undefined && atomic < BigInt(authorization.value)) {
    return refuse(reasons.balance, `The payer has ${atomic} atomic units, expected ${authorization.value}.`)
  }
  return refuse(reasonOf(error.message), `The transfer would fail on chain: ${printable(error.message)}`)
}

function reasonOf(message: string): string {
  if (/expired/i.test(message)) return reasons.validBefore
  if (/not yet valid/i.test(message)) return reasons.validAfter
  if (/signature/i.test(message)) return reasons.signature
  return reasons.simulation
}

/** A node's words, which a token's author can choose: short and printable only. */
const printable = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?').slice(0, 200)
