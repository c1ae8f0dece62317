import { createKeyPairSignerFromBytes } from '@solana/kit'
import { Keypair } from '@solana/web3.js'
import type { PaymentPayload, PaymentRequirements } from '@x402/core/types'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { ExactEvmScheme } from '@x402/evm/exact/facilitator'
import { UptoEvmScheme } from '@x402/evm/upto/facilitator'
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
import { verifyReceipt } from './receipt.ts'
import { createSolanaBuyer } from './solanaBuyer.ts'

/** The offer in the form of the reference facilitator, and the payment as this buyer sends it. */
function toReference(terms: OfferTerms, payload: object): [PaymentPayload, PaymentRequirements] {
  const accepted = {
    scheme: terms.scheme,
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
    scheme: 'exact',
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

for (const scheme of ['exact', 'upto'] as const) {
  t.test(
    `the reference facilitator verifies and settles a payment of ours by Permit2, scheme ${scheme}`,
    async (t) => {
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
      const facilitator = scheme === 'exact' ? new ExactEvmScheme(signer) : new UptoEvmScheme(signer)

      const privateKey = generatePrivateKey()
      const payer = privateKeyToAccount(privateKey).address
      await chain.mintUsdc(payer, 1_000_000n)
      const payTo = privateKeyToAccount(generatePrivateKey()).address
      const terms: OfferTerms = {
        scheme,
        asset: assetOf(chain.network),
        amountAtomic: 250_000n,
        payTo: payTo.toLowerCase(),
        maxTimeoutSeconds: 60,
        extra: {
          name: 'USDC',
          version: '2',
          assetTransferMethod: 'permit2',
          facilitatorAddress: account.address,
        },
        permit2: { facilitator: scheme === 'exact' ? null : account.address },
      }
      const newBuyer = () => createEvmBuyer({ privateKey, rpcUrl: chain.rpcUrl })
      await t.rejects(newBuyer().sign(terms, AbortSignal.timeout(10_000)), {
        name: 'BuyerRefusal',
        message:
          /cast send 0x036CbD.* 'approve\(address,uint256\)' 0x000000000022D473030F116dDEE9F6B43aC78BA3 250000/,
      })
      await chain.allowPermit2(payer)

      const payment = await newBuyer().sign(terms, AbortSignal.timeout(10_000))
      const [sent, offered] = toReference(terms, payment.payload)
      t.match(await facilitator.verify(sent, offered), { isValid: true, payer })
      const [amount, charged] = scheme === 'exact' ? ['250000', 250_000n] : ['40000', 40_000n]
      const before = await verifyReceipt(
        { payment, transaction: null, amount: '0', signal: AbortSignal.timeout(10_000) },
        chain.rpcUrl,
      )
      t.match(before, { isVerified: true, charged: 'not_yet', chargedAmount: '0' })
      const settled = await facilitator.settle(sent, { ...offered, amount })
      t.match(settled, { success: true })
      t.equal(await chain.balanceUsdc(payTo), charged)
      const verdictOn = (transaction: string | null, amount: string | null) =>
        verifyReceipt({ payment, transaction, amount, signal: AbortSignal.timeout(2_000) }, chain.rpcUrl)
      for (const transaction of [settled.transaction, null])
        for (const named of [amount, null])
          t.match(await verdictOn(transaction, named), {
            isVerified: true,
            charged: 'yes',
            chargedAmount: amount,
            transaction: settled.transaction,
          })
      t.match(await verdictOn(settled.transaction, '39999'), {
        isVerified: false,
        charged: 'yes',
        chargedAmount: amount,
        problem: /charge of \d+ atomic units, but the seller names 39999/,
      })
      t.match(await verdictOn(null, '0'), {
        isVerified: false,
        charged: 'yes',
        problem: /charged nothing, but/,
      })

      const other = await newBuyer().sign(terms, AbortSignal.timeout(10_000))
      const [another] = toReference(terms, other.payload)
      const second = await facilitator.settle(another, { ...offered, amount })
      t.match(await verdictOn(second.transaction, amount), {
        isVerified: false,
        charged: 'yes',
        problem: /does not contain this payment/,
      })
      await chain.advanceTime(120)
      const unused = await newBuyer().sign({ ...terms, maxTimeoutSeconds: 10 }, AbortSignal.timeout(10_000))
      const late = { payment: unused, transaction: null, signal: AbortSignal.timeout(2_000) }
      t.match(await verifyReceipt(late, chain.rpcUrl), { charged: 'no', problem: /expired unused/ })
    },
  )
}

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
        scheme: 'exact',
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
