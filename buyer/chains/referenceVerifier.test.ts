import { createKeyPairSignerFromBytes } from '@solana/kit'
import { Keypair } from '@solana/web3.js'
import type { PaymentPayload, PaymentRequirements } from '@x402/core/types'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { ExactEvmScheme } from '@x402/evm/exact/facilitator'
import { toFacilitatorSvmSigner } from '@x402/svm'
import { ExactSvmScheme } from '@x402/svm/exact/facilitator'
import t from 'tap'
import { createWalletClient, http, publicActions } from 'viem'
import { generatePrivateKey, mnemonicToAccount, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import { startLocalEvm } from '../../localnet/evm/startLocalEvm.ts'
import { startLocalSolana } from '../../localnet/solana/startLocalSolana.ts'
import { createEvmBuyer } from './evmBuyer.ts'
import { createSolanaBuyer } from './solanaBuyer.ts'
import { verifyReceipt } from './verifyReceipt.ts'

/** The offer as the reference's facilitator wants it, and the payment as our buyer sends it. */
function toReference(terms: OfferTerms, payload: object): [PaymentPayload, PaymentRequirements] {
  const accepted = {
    scheme: 'exact',
    network: terms.asset.network,
    amount: terms.amountAtomic.toString(),
    asset: terms.asset.address,
    payTo: terms.payTo,
    maxTimeoutSeconds: terms.maxTimeoutSeconds,
    extra: { ...terms.extra },
  }
  const resource = { url: 'http://localhost/', description: '', mimeType: '' }
  return [{ x402Version: 2, resource, accepted, payload: { ...payload } }, accepted]
}

const assetOf = (network: string) => builtInAssets.find((asset) => asset.network === network)!

t.test('the reference facilitator verifies and settles an EVM payment of ours', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const account = mnemonicToAccount(chain.mnemonic)
  const client = createWalletClient({
    account,
    chain: baseSepolia,
    transport: http(chain.rpcUrl),
    pollingInterval: 50,
  }).extend(publicActions)
  const signer = toFacilitatorEvmSigner({ ...client, address: account.address } as never)
  const facilitator = new ExactEvmScheme(signer)

  const privateKey = generatePrivateKey()
  await chain.mintUsdc(privateKeyToAccount(privateKey).address, 1_000_000n)
  const buyer = createEvmBuyer({ privateKey, rpcUrl: chain.rpcUrl })
  const payTo = privateKeyToAccount(generatePrivateKey()).address
  const terms: OfferTerms = {
    asset: assetOf(chain.network),
    amountAtomic: 250_000n,
    payTo: payTo.toLowerCase(),
    maxTimeoutSeconds: 60,
    extra: { name: 'USDC', version: '2' },
  }
  const payment = await buyer.sign(terms, AbortSignal.timeout(10_000))
  const reference = toReference(terms, payment.payload)
  t.match(await facilitator.verify(...reference), { isValid: true, payer: buyer.address })
  const settled = await facilitator.settle(...reference)
  t.match(settled, { success: true })
  const query = { payment, transaction: settled.transaction, signal: AbortSignal.timeout(10_000) }
  t.match(await verifyReceipt(query, chain.rpcUrl), { isVerified: true, charged: 'yes' })
  t.equal(await chain.balanceUsdc(payTo), 250_000n)
})

for (const memo of [undefined, 'invoice 7']) {
  t.test(
    `the reference facilitator verifies and settles a Solana payment of ours, memo ${memo}`,
    async (t) => {
      const chain = await startLocalSolana({ slotMs: 50 })
      t.teardown(() => chain.close())
      const feePayer = Keypair.generate()
      const [wallet, payee] = [Keypair.generate(), Keypair.generate().publicKey.toBase58()]
      chain.airdrop(feePayer.publicKey.toBase58(), 1_000_000_000n)
      chain.mintUsdc(wallet.publicKey.toBase58(), 1_000_000n)
      chain.createAta(payee)
      const signer = await createKeyPairSignerFromBytes(feePayer.secretKey)
      const facilitator = new ExactSvmScheme(toFacilitatorSvmSigner(signer, { defaultRpcUrl: chain.rpcUrl }))

      const buyer = createSolanaBuyer({ secret: wallet.secretKey, rpcUrl: chain.rpcUrl })
      const terms: OfferTerms = {
        asset: assetOf(chain.network),
        amountAtomic: 250_000n,
        payTo: payee,
        maxTimeoutSeconds: 60,
        extra: { feePayer: feePayer.publicKey.toBase58(), ...(memo !== undefined && { memo }) },
      }
      const payment = await buyer.sign(terms, AbortSignal.timeout(10_000))
      const reference = toReference(terms, payment.payload)
      t.match(await facilitator.verify(...reference), { isValid: true, payer: buyer.address })
      const settled = await facilitator.settle(...reference)
      t.match(settled, { success: true })
      const query = { payment, transaction: settled.transaction, signal: AbortSignal.timeout(10_000) }
      t.match(await verifyReceipt(query, chain.rpcUrl), { isVerified: true, charged: 'yes' })
      t.equal(chain.balanceUsdc(payee), 250_000n)
    },
  )
}
