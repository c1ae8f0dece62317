import { randomBytes } from 'node:crypto'
import type { Address, Hex } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { permit2Proxies, settleCall } from '../../../core/evm/permit2.ts'
import { requestByFetch } from '../../../core/rpc/requestByFetch.ts'
import { createRpc, type Rpc } from '../../../core/rpc/rpc.ts'
import { permit2Types } from '../../../core/x402/types.ts'
import { type LocalEvm, PERMIT2_ADDRESS, startLocalEvm } from '../../../localnet/evm/startLocalEvm.ts'
import type { OpenClaim } from '../../../vault/effects/payment.ts'
import { together } from './uptoOrders.ts'

/** Anvil names the block before this many others as final. */
export const BLOCKS_UNTIL_FINAL = 64

export interface SignedUpto {
  readonly open: OpenClaim
  /** The call that charges this amount. */
  charge(amountAtomic: bigint): { readonly to: string; readonly data: string }
}

export interface UptoChanges {
  readonly most?: bigint
  readonly nonce?: bigint
  readonly facilitator?: string
  readonly payTo?: string
  readonly validBefore?: number
  readonly sinceBlock?: number | null
}

export interface PermitChain {
  readonly chain: LocalEvm
  readonly rpc: Rpc
  readonly payer: PrivateKeyAccount
  readonly payTo: string
  /** An account of the chain that charges permits itself. */
  readonly facilitator: string
  sign(changes?: UptoChanges): Promise<SignedUpto>
  /** Charges a permit in a transaction of its facilitator. */
  charge(signed: SignedUpto, amountAtomic: bigint): Promise<Hex>
  /** Charges permits, whose facilitator is Multicall3, in one transaction. */
  chargeTogether(charges: readonly (readonly [signed: SignedUpto, amountAtomic: bigint])[]): Promise<Hex>
  /** Makes everything until now final. */
  finalize(): Promise<void>
}

interface Test {
  teardown(work: () => unknown): unknown
}

/** A local chain with a payer who has allowed Permit2. */
export async function startPermitChain(t: Test): Promise<PermitChain> {
  const chain = await startLocalEvm()
  t.teardown(chain.close)
  const [facilitator, payTo] = (await chain.rpc<Address[]>('eth_accounts')) as [Address, Address]
  const payer = privateKeyToAccount(generatePrivateKey())
  await chain.mintUsdc(payer.address, 100_000_000n)
  await chain.allowPermit2(payer.address)
  await chain.mine(BLOCKS_UNTIL_FINAL + 1)
  const rpc = createRpc({ urls: [chain.rpcUrl], sendRequest: requestByFetch(fetch), timeoutMs: 60_000 })

  async function sign(changes: UptoChanges = {}): Promise<SignedUpto> {
    const { most = 1_000n, sinceBlock = Number(await chain.blockNumber()) - BLOCKS_UNTIL_FINAL } = changes
    const { nonce = BigInt(`0x${randomBytes(32).toString('hex')}`) } = changes
    const { validBefore = Math.floor(Date.now() / 1_000) + 3_600 } = changes
    const witness = {
      to: changes.payTo ?? payTo,
      facilitator: changes.facilitator ?? facilitator,
      validAfter: '0',
    }
    const signature = await payer.signTypedData({
      domain: { name: 'Permit2', chainId: chain.chainId, verifyingContract: PERMIT2_ADDRESS },
      types: permit2Types.upto,
      primaryType: 'PermitWitnessTransferFrom',
      message: {
        permitted: { token: chain.usdcAddress, amount: most },
        spender: permit2Proxies.upto,
        nonce,
        deadline: BigInt(validBefore),
        witness,
      } as never,
    })
    const values = {
      token: chain.usdcAddress,
      value: String(most),
      nonce: String(nonce),
      validBefore: String(validBefore),
      from: payer.address,
      ...witness,
      signature,
    }
    return {
      open: {
        claim: {
          chain: 'base-sepolia',
          asset: chain.usdcAddress,
          payer: payer.address,
          payTo: witness.to,
          most: values.value,
          nonce: values.nonce,
          validBefore: values.validBefore,
          facilitator: witness.facilitator,
        },
        sinceBlock,
      },
      charge: (amountAtomic) => settleCall(values, amountAtomic),
    }
  }

  return {
    chain,
    rpc,
    payer,
    payTo,
    facilitator,
    sign,
    charge: ({ charge }, amountAtomic) => chain.send({ from: facilitator, ...charge(amountAtomic) }),
    chargeTogether: (charges) =>
      chain.send({
        from: facilitator,
        ...together(charges.map(([{ charge }, amountAtomic]) => charge(amountAtomic))),
      }),
    finalize: () => chain.mine(BLOCKS_UNTIL_FINAL + 1),
  }
}
