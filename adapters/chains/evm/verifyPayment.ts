import type { Refusal, Verified } from '../../../core/ports/settler.ts'
import type { Authorization } from './authorization.ts'
import type { EvmCall } from './payCall.ts'
import { reasons } from './reasons.ts'
import { refuse, refuseForNow } from './refuse.ts'
import type { Rpc } from './rpc.ts'
import type { RpcRefused } from './rpcError.ts'
import { reading, token, wordOf } from './token.ts'

export interface VerifyOptions {
  readonly rpc: Rpc
  /** Who will send the transaction. */
  readonly from: string
  readonly maxGas: number
}

/** Asks the chain whether exactly this call would succeed now. */
export type VerifyPayment = (call: EvmCall, asset: string, authorization: Authorization) => Promise<Verified>

/**
 * Makes the check against the chain: one simulation of the very call that would be sent, from the settling account,
 * under the gas cap. Only when it fails are nonce and balance read, to say why. A token is looked at once, because a
 * call to an address without code succeeds.
 */
export function createVerifyPayment({ rpc, from, maxGas }: VerifyOptions): VerifyPayment {
  const contracts = new Set<string>()

  return async (call, asset, authorization) => {
    const simulation = {
      method: 'eth_call',
      params: [{ from, to: call.to, data: call.data, gas: `0x${maxGas.toString(16)}` }, 'latest'],
    }
    try {
      const calls = contracts.has(asset) ? [simulation] : [simulation, codeOf(asset)]
      const [simulated, code] = await rpc.batch(calls)
      if (code !== undefined) {
        if (!code.ok || typeof code.result !== 'string') return unavailable
        if (code.result === '0x') return refuse(reasons.notDeployed, `There is no token at ${asset}.`)
        contracts.add(asset)
      }
      if (simulated!.ok) return { ok: true }
      if (!simulated!.error.isRevert) return unavailable
      return await explain(rpc, asset, authorization, simulated!.error)
    } catch {
      return unavailable
    }
  }
}

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
  const isUsed = used?.ok ? wordOf(used.result) : undefined
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
