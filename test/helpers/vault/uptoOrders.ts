import { encodeFunctionData, type Hex, parseAbi } from 'viem'
import { settleCall } from '../../../core/evm/permit2.ts'
import type { EvmCall } from '../../../core/evm/token.ts'
import { LOCAL_USDC_ADDRESS, MULTICALL3_ADDRESS } from '../../../localnet/evm/startLocalEvm.ts'

export interface UptoOffer {
  readonly facilitator: string
  readonly payTo: string
  /** In smallest units of USDC. */
  readonly most?: string
  readonly scheme?: 'upto' | 'exact'
}

/** The body of a request to pay on the local chain. */
export const orderOf = ({ facilitator, payTo, most = '1000000', scheme = 'upto' }: UptoOffer) => ({
  payment_required: {
    x402Version: 2,
    resource: { url: 'https://api.example.com/metered' },
    accepts: [
      {
        scheme,
        network: 'eip155:84532',
        amount: most,
        asset: LOCAL_USDC_ADDRESS,
        payTo,
        maxTimeoutSeconds: 300,
        extra: { name: 'USDC', version: '2', ...(scheme === 'upto' && { facilitatorAddress: facilitator }) },
      },
    ],
  },
  max_amount: '5',
  agent_name: 'shopper',
})

interface Payload {
  readonly signature: string
  readonly permit2Authorization: {
    readonly from: string
    readonly permitted: { readonly token: string; readonly amount: string }
    readonly nonce: string
    readonly deadline: string
    readonly witness: { readonly to: string; readonly facilitator: string; readonly validAfter: string }
  }
}

/** The call by which the facilitator charges a payment that a vault has signed. */
export function chargeOf(paymentHeader: string, amountAtomic: bigint): EvmCall {
  const { payload } = JSON.parse(Buffer.from(paymentHeader, 'base64').toString()) as { payload: Payload }
  const { from, permitted, nonce, deadline, witness } = payload.permit2Authorization
  const { token, amount: value } = permitted
  const permit = { from, token, value, nonce, validBefore: deadline, ...witness }
  return settleCall({ ...permit, signature: payload.signature }, amountAtomic)
}

const multicall = parseAbi([
  'function aggregate3((address target, bool allowFailure, bytes callData)[] calls) payable',
])

/** One call that makes others, as Multicall3. */
export function together(calls: readonly EvmCall[]): EvmCall {
  const args = calls.map(({ to, data }) => ({
    target: to as Hex,
    allowFailure: false,
    callData: data as Hex,
  }))
  const data = encodeFunctionData({ abi: multicall, functionName: 'aggregate3', args: [args] })
  return { to: MULTICALL3_ADDRESS, data }
}
