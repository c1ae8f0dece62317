import { x402Facilitator } from '@x402/core/facilitator'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { ExactEvmScheme } from '@x402/evm/exact/facilitator'
import { UptoEvmScheme } from '@x402/evm/upto/facilitator'
import type { Test } from 'tap'
import { createWalletClient, http, publicActions } from 'viem'
import { mnemonicToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { LOCAL_EVM_MNEMONIC, type LocalEvm, startLocalEvm } from '../../../../localnet/evm/startLocalEvm.ts'
import { network, newAccount, signPayment, termsOf } from '../evm/settler.ts'
import { type start, startFacilitator } from './facilitator.ts'

/** What buyers are asked for. */
export const terms = termsOf()

/** A payment of these terms, as the settler's own check reads it. */
export async function paymentFor(settler: Awaited<ReturnType<typeof start>>, account = newAccount()) {
  const payment = await signPayment(account, terms)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  return { payment, identity: checked.identity }
}

/** The reference facilitator with a key of the chain. */
async function startReference(t: Test, chain: LocalEvm, extensions: readonly string[]) {
  const account = mnemonicToAccount(LOCAL_EVM_MNEMONIC, { addressIndex: 5 })
  const client = createWalletClient({
    account,
    chain: baseSepolia,
    transport: http(chain.rpcUrl),
    pollingInterval: 20,
  })
  const signer = toFacilitatorEvmSigner({
    ...client.extend(publicActions),
    address: account.address,
  } as never)
  const facilitator = new x402Facilitator()
    .register(network, new ExactEvmScheme(signer))
    .register(network, new UptoEvmScheme(signer))
  for (const key of extensions) facilitator.registerExtension({ key })
  return startFacilitator(t, {
    supported: () => facilitator.getSupported(),
    verify: ({ paymentPayload, paymentRequirements }) =>
      facilitator.verify(paymentPayload, paymentRequirements),
    settle: ({ paymentPayload, paymentRequirements }) =>
      facilitator.settle(paymentPayload, paymentRequirements),
  })
}

/**
 * A chain, the reference facilitator on it, and a buyer who has one USDC.
 *
 * @param extensions names of the x402 extensions that the facilitator has
 */
export async function setStage(t: Test, extensions: readonly string[] = []) {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const reference = await startReference(t, chain, extensions)
  const buyer = newAccount()
  await chain.mintUsdc(buyer.address, 1_000_000n)
  return { chain, reference, buyer }
}
