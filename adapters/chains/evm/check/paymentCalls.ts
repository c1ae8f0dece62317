import type { PaymentIdentity } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/hex.ts'
import { approvalCall, isUsedIn, permit2, permit2Address } from '../../../../core/evm/permit2.ts'
import { type EvmCall, reading, token, wordOf } from '../../../../core/evm/token.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import type { Rpc, RpcCall } from '../../../../core/rpc/rpc.ts'
import type { PaymentPayload } from '../../../../core/x402/types.ts'
import { refuse, refuseForNow, sumInFlight } from '../../refusals.ts'
import { reasons } from '../reasons.ts'
import { isRevert } from '../rpc/nodes.ts'
import type { Fees } from '../settle/transaction.ts'
import type { AccountCode } from './accountCode.ts'
import type { Authorization } from './authorization.ts'
import { type Digests, readSigned, withTokensV } from './signedPayment.ts'
import { payCall, readDeployment } from './transferCalls.ts'

/** Gas limit of a payment with a plain signature. A contract wallet's signature check and its deployment (ERC-6492) use more. */
const PLAIN_GAS = 300_000
/** Length of a plain signature in characters: 0x, r, s and v in hex. */
const PLAIN_SIGNATURE_CHARS = 132

/** The contract call that settles a payment. Verification simulates the same call. */
export interface PaymentCall {
  readonly ok: true
  readonly call: EvmCall
  /**
   * Whether the call may share a transaction with other payments. It must be an authorization of EIP-3009 with a signature of 65
   * bytes, whose wallet need not be deployed. A payment by Permit2 has a transaction of its own, because the proxy of `upto` checks
   * its caller, and no event of Permit2 says which payment of a transaction has landed.
   */
  readonly mayShare: boolean
  /** The only account whose transaction can settle the payment, in lower case. Null if every account can. */
  readonly sender: string | null
  /** Gas limit of the call. */
  readonly gas: number
  readonly authorization: Authorization
}

export interface PaymentCallsDeps {
  readonly rpc: Rpc
  readonly code: AccountCode
  /** Factories that may be called to deploy a wallet (ERC-6492). */
  readonly factories: readonly string[]
  readonly digests: Digests
  readonly maxGas: number
  /**
   * Whether the caller needs to find out if the payer is a plain account. If so, the simulation also reads and caches the payer's
   * code.
   */
  readonly readsPayersCode: () => boolean
}

/** Makes the calls that settle payments, and simulates them. */
export class PaymentCalls {
  readonly #deps: PaymentCallsDeps
  readonly #factories: ReadonlySet<string>
  /** Tokens and proxies that are known to be contracts. */
  readonly #contracts = new Set<string>()

  constructor(deps: PaymentCallsDeps) {
    this.#deps = deps
    this.#factories = new Set(deps.factories.map((factory) => factory.toLowerCase()))
  }

  /** @param amountAtomic the amount to charge. Only a payment by `upto` can be charged less than its authorized amount */
  async prepare(
    payment: PaymentPayload,
    { asset }: PaymentIdentity,
    amountAtomic: bigint,
  ): Promise<PaymentCall | Refusal> {
    const read = readSigned(payment)
    if (!read.ok) return read
    const signed = withTokensV(read.authorization, asset, this.#deps.digests)
    const authorization = await this.#withNeededPermit(signed, asset, amountAtomic)
    if ('ok' in authorization) return authorization
    const deployment = readDeployment(authorization.signature)
    if (deployment === undefined)
      return this.#prepared(payCall(asset, authorization, undefined, amountAtomic), authorization)

    const { code } = this.#deps
    let isDeployed: boolean
    try {
      isDeployed = await code.isContract(authorization.from)
    } catch {
      return refuseForNow(
        reasons.verifyFault,
        "The gateway cannot query the chain for the payer's account now. Try again.",
      )
    }
    if (isDeployed) {
      const unwrapped = { ...authorization, signature: deployment.innerSignature }
      return this.#prepared(payCall(asset, unwrapped, undefined, amountAtomic), unwrapped)
    }
    if (authorization.permit2 !== undefined) return walletNotDeployed
    // The factory's call uses this account's gas, so the list is checked here as well as during the signature check.
    if (!this.#factories.has(deployment.factory)) return factoryNotAllowed
    // This call deploys the wallet, so its next payment must not use the cached "no code".
    code.forget(authorization.from)
    return this.#prepared(payCall(asset, authorization, deployment, amountAtomic), authorization)
  }

  /**
   * Leaves out the permit of a payment whose payer already lets Permit2 move enough. This is so if another account has submitted the
   * permit. If the permit's nonce was used without that effect, the payment would only cost gas, so it is refused. If no node responds,
   * the permit stays, because the proxy ignores a permit that fails.
   */
  async #withNeededPermit(
    authorization: Authorization,
    asset: string,
    amountAtomic: bigint,
  ): Promise<Authorization | Refusal> {
    const { from, permit2: part } = authorization
    if (part?.allowance === undefined) return authorization
    const [allowed, next] = await this.#deps.rpc.many([
      reading(permit2.allowance(asset, from)),
      reading(permit2.permitNonce(asset, from)),
    ])
    const allowedAtomic = allowed?.ok ? wordOf(allowed.result) : undefined
    const nonce = next?.ok ? wordOf(next.result) : undefined
    if (allowedAtomic === undefined) return authorization
    if (allowedAtomic >= amountAtomic) {
      const { allowance: _, ...rest } = part
      return { ...authorization, permit2: rest }
    }
    const isSpent = nonce !== undefined && nonce !== BigInt(part.allowance.nonce)
    return isSpent ? allowanceMissing(asset, allowedAtomic, amountAtomic) : authorization
  }

  #prepared(call: EvmCall, authorization: Authorization): PaymentCall {
    const { signature, permit2: part } = authorization
    const isPlain = signature.length === PLAIN_SIGNATURE_CHARS
    return {
      ok: true,
      call,
      mayShare: isPlain && part === undefined,
      sender: part?.facilitator ?? null,
      gas: isPlain ? Math.min(this.#deps.maxGas, PLAIN_GAS) : this.#deps.maxGas,
      authorization,
    }
  }

  /**
   * Asks a node whether exactly this transaction would succeed now. It simulates the call from the settling account with the same
   * gas and fees, so that a contract wallet sees the same values. A wallet can still detect the simulation, at least by the block
   * number, and the budgets limit what that can cost. If the simulation fails, nonce and balance are read to find the reason. The
   * code of a token or proxy is read once, because a call to an address without code succeeds.
   *
   * @param from the account that would send the transaction now
   * @param aheadAtomic how much of the balance the payer's other payments in flight will take
   */
  async simulate(
    from: string,
    { call, gas, authorization }: Pick<PaymentCall, 'call' | 'gas' | 'authorization'>,
    asset: string,
    fees: Fees,
    aheadAtomic: bigint,
  ): Promise<{ readonly ok: true } | Refusal> {
    const { rpc, code, readsPayersCode } = this.#deps
    const transaction = {
      from,
      to: call.to,
      data: call.data,
      gas: hex(gas),
      maxFeePerGas: hex(fees.maxFeePerGas),
      maxPriorityFeePerGas: hex(fees.maxPriorityFeePerGas),
    }
    try {
      const contracts = authorization.permit2 === undefined ? [asset] : [asset, call.to]
      const unknown = contracts.filter((address) => !this.#contracts.has(address))
      const calls: RpcCall[] = [
        { method: 'eth_call', params: [transaction, 'latest'] },
        ...unknown.map(codeOf),
      ]
      const readsPayer = readsPayersCode() && code.remembered(authorization.from) === undefined
      if (readsPayer) calls.push(codeOf(authorization.from))
      if (aheadAtomic > 0n) calls.push(...meansOf(asset, authorization))
      const [simulated, ...others] = await rpc.batch(calls)
      for (const address of unknown) {
        const found = others.shift()
        if (!found?.ok || typeof found.result !== 'string') return unavailable
        if (found.result === '0x') return address === asset ? noToken(asset) : noProxy(address)
        this.#contracts.add(address)
      }
      if (readsPayer) {
        const payers = others.shift()
        if (payers?.ok && typeof payers.result === 'string') code.note(authorization.from, payers.result)
      }
      if (simulated!.ok) {
        const neededAtomic = aheadAtomic + BigInt(authorization.value)
        for (const [i, means] of others.entries()) {
          const atomic = means.ok ? wordOf(means.result) : undefined
          if (atomic === undefined) return unavailable
          if (atomic < neededAtomic) return i === 0 ? sumInFlight : allowanceInFlight
        }
        return { ok: true }
      }
      if (!isRevert(simulated!.error)) return unavailable
      const explain = authorization.permit2 === undefined ? explainTransfer : explainPermit2
      return await explain(rpc, asset, authorization, simulated!.error.message)
    } catch {
      return unavailable
    }
  }
}

const hex = (value: number | bigint): string => `0x${value.toString(16)}`

const codeOf = (address: string) => ({ method: 'eth_getCode', params: [address, 'latest'] })

const unavailable = refuseForNow(
  reasons.verifyFault,
  'The gateway cannot query the chain now. Nothing was charged. Try again with the same payment.',
)

/** Reads what limits the payer's payments, which is the balance and, with Permit2, its allowance. */
const meansOf = (asset: string, { from, permit2: part }: Authorization): RpcCall[] => [
  reading(token.balanceOf(asset, from)),
  ...(part === undefined ? [] : [reading(permit2.allowance(asset, from))]),
]

const allowanceInFlight: Refusal = {
  ...sumInFlight,
  message:
    'Permit2 may not move enough of the payer’s tokens for all of its payments in progress. Nothing was charged. Try again when they have settled, with a new payment if this one has a permit (EIP-2612), or raise the allowance.',
}

const noToken = (asset: string): Refusal => refuse(reasons.notDeployed, `No token exists at ${asset}.`)
const noProxy = (proxy: string): Refusal =>
  refuse(reasons.permit2NotDeployed, `This chain has no x402 proxy of Permit2 at ${proxy}.`)

const walletNotDeployed = refuse(
  reasons.permit2Signature,
  'The payer is a contract wallet that is not deployed yet, so Permit2 cannot check its signature. Deploy the wallet first, by any transaction, or pay with another wallet.',
)

/**
 * Refusal of a wallet that its first payment would deploy through a factory that is not allowed. The settling account would pay for
 * the deployment.
 */
export const factoryNotAllowed = refuse(
  reasons.factory,
  'The payer is a contract wallet that is not deployed yet, and this gateway does not call its factory. Deploy the wallet first, by any transaction, or pay with another wallet.',
)

const nonceIsUsed =
  'The nonce of this authorization is used on chain, but not by this call. The authorization may have moved your money already. Look up the transfer before you pay again.'

async function explainTransfer(
  rpc: Rpc,
  asset: string,
  authorization: Authorization,
  message: string,
): Promise<Refusal> {
  const [used, balance] = await rpc.batch([
    reading(token.authorizationState(asset, authorization.from, authorization.nonce)),
    reading(token.balanceOf(asset, authorization.from)),
  ])
  // A node that cannot run this read proves nothing about the token or the payment.
  if (!used!.ok && !isRevert(used!.error)) return unavailable
  const isUsed = used!.ok ? wordOf(used!.result) : undefined
  if (isUsed === undefined)
    return refuse(reasons.notSupported, `The token ${asset} does not support EIP-3009.`)
  if (isUsed !== 0n) return refuse(reasons.nonceUsed, nonceIsUsed)
  const atomic = balance?.ok ? wordOf(balance.result) : undefined
  if (atomic !== undefined && atomic < BigInt(authorization.value)) {
    return refuse(reasons.balance, `The payer has ${atomic} atomic units, expected ${authorization.value}.`)
  }
  return refuse(reasonOf(message), `The transfer would fail on chain: ${printable(message)}`)
}

/** Finds out why a transfer by Permit2 would fail. @param message the node's */
export async function explainPermit2(
  rpc: Rpc,
  asset: string,
  authorization: Authorization,
  message: string,
): Promise<Refusal> {
  const { from, nonce, value } = authorization
  const [bitmap, balance, allowance] = await rpc.batch([
    reading(permit2.nonceBitmap(from, nonce)),
    ...meansOf(asset, authorization),
  ])
  if (!bitmap!.ok) return unavailable
  const used = wordOf(bitmap!.result)
  if (used === undefined)
    return refuse(reasons.permit2NotDeployed, `This chain has no Permit2 at ${permit2Address}.`)
  if (isUsedIn(used, nonce)) return refuse(reasons.permit2Nonce, nonceIsUsed)
  const [balanceAtomic, allowedAtomic] = [balance, allowance].map((one) =>
    one?.ok ? wordOf(one.result) : undefined,
  )
  if (balanceAtomic !== undefined && balanceAtomic < BigInt(value))
    return refuse(reasons.permit2Balance, `The payer has ${balanceAtomic} atomic units, expected ${value}.`)
  if (allowedAtomic !== undefined && allowedAtomic < BigInt(value))
    return allowanceMissing(asset, allowedAtomic, BigInt(value))
  return refuse(reasons.permit2Simulation, `The transfer would fail on chain: ${printable(message)}`)
}

const allowanceMissing = (asset: string, allowedAtomic: bigint, neededAtomic: bigint): Refusal => ({
  ...refuse(
    reasons.permit2Allowance,
    `Permit2 may move ${allowedAtomic} atomic units of the payer's tokens, expected at least ${neededAtomic}. Call approve(${checksumAddress(permit2Address)}, amount) of the token ${asset} once, from the payer's wallet. Then pay again.`,
  ),
  extra: { approval: approvalCall(asset) },
})

function reasonOf(message: string): string {
  if (/expired/i.test(message)) return reasons.validBefore
  if (/not yet valid/i.test(message)) return reasons.validAfter
  if (/signature/i.test(message)) return reasons.signature
  return reasons.simulation
}

/** A node's error text, shortened and with printable characters only, because a token's author can choose it. */
const printable = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?').slice(0, 200)
