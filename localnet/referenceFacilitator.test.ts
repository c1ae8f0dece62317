import { createKeyPairSignerFromBytes } from '@solana/kit'
import { Keypair } from '@solana/web3.js'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { ExactEvmScheme } from '@x402/evm/exact/client'
import { ExactEvmScheme as EvmFacilitator } from '@x402/evm/exact/facilitator'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { UptoEvmScheme as UptoFacilitator } from '@x402/evm/upto/facilitator'
import { toFacilitatorSvmSigner } from '@x402/svm'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { ExactSvmScheme as SvmFacilitator } from '@x402/svm/exact/facilitator'
import t from 'tap'
import { createPublicClient, createWalletClient, http, parseAbi, publicActions } from 'viem'
import { generatePrivateKey, mnemonicToAccount, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { startFaultyRpc } from '../test/helpers/localnet/startFaultyRpc.ts'
import { startLocalEvm } from './evm/startLocalEvm.ts'
import { startLocalSolana } from './solana/startLocalSolana.ts'

const resource = { url: 'https://seller.example/paid', description: '', mimeType: 'text/plain' }

t.test('the reference EVM client and facilitator deal with each other over the local chain', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(chain.close)
  const rpc = await startFaultyRpc(chain.rpcUrl)
  t.teardown(rpc.close)
  const buyer = privateKeyToAccount(generatePrivateKey())
  const payTo = privateKeyToAccount(generatePrivateKey()).address
  await chain.mintUsdc(buyer.address, 10_000n)
  const accepted = {
    scheme: 'exact',
    network: 'eip155:84532',
    amount: '10000',
    asset: chain.usdcAddress,
    payTo,
    maxTimeoutSeconds: 60,
    extra: { name: 'USDC', version: '2' },
  } as const
  const account = mnemonicToAccount(chain.mnemonic)
  const wallet = createWalletClient({ account, chain: baseSepolia, transport: http(rpc.url) })
  const client = { ...wallet.extend(publicActions), address: account.address }
  const signer = toFacilitatorEvmSigner(client as unknown as Parameters<typeof toFacilitatorEvmSigner>[0])
  const facilitator = new EvmFacilitator(signer)

  const created = await new ExactEvmScheme(buyer).createPaymentPayload(2, accepted)
  const payment = { ...created, resource, accepted }
  t.match(await facilitator.verify(payment, accepted), { isValid: true, payer: buyer.address })
  t.match(await facilitator.settle(payment, accepted), { success: true })
  t.equal(await chain.balanceUsdc(payTo), 10_000n)
  t.match(await facilitator.verify(payment, accepted), { isValid: false }, 'a used one is found out')
  t.equal(rpc.forwarded('eth_sendRawTransaction'), 1)
})

t.test('the reference client, facilitator and the local chain agree on payments by Permit2', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(chain.close)
  const buyer = privateKeyToAccount(generatePrivateKey())
  const payTo = privateKeyToAccount(generatePrivateKey()).address
  await chain.mintUsdc(buyer.address, 50_000n)
  const signerAt = (addressIndex: number) => {
    const account = mnemonicToAccount(chain.mnemonic, { addressIndex })
    const wallet = createWalletClient({ account, chain: baseSepolia, transport: http(chain.rpcUrl) })
    const client = { ...wallet.extend(publicActions), address: account.address }
    return toFacilitatorEvmSigner(client as unknown as Parameters<typeof toFacilitatorEvmSigner>[0])
  }
  const signer = signerAt(0)
  const [facilitatorAddress] = signer.getAddresses()
  const offer = {
    network: 'eip155:84532',
    amount: '10000',
    asset: chain.usdcAddress,
    payTo,
    maxTimeoutSeconds: 60,
    extra: { name: 'USDC', version: '2', assetTransferMethod: 'permit2', facilitatorAddress },
  } as const
  const [exact, upto] = [
    { ...offer, scheme: 'exact' },
    { ...offer, scheme: 'upto' },
  ]
  const facilitator = new UptoFacilitator(signer)
  const payment = async () => ({
    ...(await new UptoEvmScheme(buyer).createPaymentPayload(2, upto)),
    resource,
    accepted: upto,
  })

  const first = await payment()
  const unable = { isValid: false, invalidReason: 'permit2_allowance_required' }
  t.match(await facilitator.verify(first, upto), unable)
  await chain.allowPermit2(buyer.address)
  t.match(await facilitator.verify(first, upto), { isValid: true, payer: buyer.address })
  const tooMuch = { success: false, errorReason: 'invalid_upto_evm_payload_settlement_exceeds_amount' }
  t.match(await facilitator.settle(first, { ...upto, amount: '10001' }), tooMuch)
  t.match(await facilitator.settle(first, { ...upto, amount: '4000' }), { success: true, amount: '4000' })
  t.equal(await chain.balanceUsdc(payTo), 4_000n)
  t.match(await facilitator.verify(first, upto), { isValid: false }, 'a used one is found out')

  const byAnother = new UptoFacilitator(signerAt(1))
  const refused = { isValid: false, invalidReason: 'upto_facilitator_mismatch' }
  t.match(await byAnother.verify(await payment(), upto), refused)

  const created = await new ExactEvmScheme(buyer).createPaymentPayload(2, exact)
  const paid = await new EvmFacilitator(signer).settle({ ...created, resource, accepted: exact }, exact)
  t.match(paid, { success: true })
  t.equal(await chain.balanceUsdc(payTo), 14_000n)
})

t.test('the reference client lets a facilitator sponsor the allowance of Permit2', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(chain.close)
  const account = privateKeyToAccount(generatePrivateKey())
  const { readContract } = createPublicClient({ chain: baseSepolia, transport: http(chain.rpcUrl) })
  const buyer = { ...account, readContract: readContract as never }
  const payTo = privateKeyToAccount(generatePrivateKey()).address
  await chain.mintUsdc(buyer.address, 50_000n)
  const facilitatorAccount = mnemonicToAccount(chain.mnemonic)
  const wallet = createWalletClient({
    account: facilitatorAccount,
    chain: baseSepolia,
    transport: http(chain.rpcUrl),
  })
  const client = { ...wallet.extend(publicActions), address: facilitatorAccount.address }
  const facilitator = new UptoFacilitator(
    toFacilitatorEvmSigner(client as unknown as Parameters<typeof toFacilitatorEvmSigner>[0]),
  )
  const accepted = {
    scheme: 'upto',
    network: 'eip155:84532',
    amount: '10000',
    asset: chain.usdcAddress,
    payTo,
    maxTimeoutSeconds: 60,
    extra: { name: 'USDC', version: '2', facilitatorAddress: facilitatorAccount.address },
  } as const
  const context = { extensions: { eip2612GasSponsoring: { info: {}, schema: {} } } }
  const created = await new UptoEvmScheme(buyer).createPaymentPayload(2, accepted, context)
  t.match(created.extensions, { eip2612GasSponsoring: { info: { from: buyer.address, amount: '10000' } } })
  const payment = { ...created, resource, accepted }
  t.match(await facilitator.verify(payment, accepted), { isValid: true })
  t.match(await facilitator.settle(payment, { ...accepted, amount: '1' }), { success: true })
  const allowance = await readContract({
    address: chain.usdcAddress,
    abi: parseAbi(['function allowance(address owner, address spender) view returns (uint256)']),
    functionName: 'allowance',
    args: [buyer.address, '0x000000000022D473030F116dDEE9F6B43aC78BA3'],
  })
  t.equal(allowance, 9_999n, 'the rest of the allowance is left')
})

t.test('the reference Solana client and facilitator deal with each other over the local chain', async (t) => {
  const chain = await startLocalSolana({ slotMs: 5 })
  t.teardown(chain.close)
  const rpc = await startFaultyRpc(chain.rpcUrl)
  t.teardown(rpc.close)
  const feePayer = await createKeyPairSignerFromBytes(Keypair.generate().secretKey)
  const buyer = await createKeyPairSignerFromBytes(Keypair.generate().secretKey)
  const payTo = Keypair.generate().publicKey.toBase58()
  chain.airdrop(feePayer.address, 1_000_000_000n)
  chain.mintUsdc(buyer.address, 10_000n)
  chain.createAta(payTo)
  const accepted = {
    scheme: 'exact',
    network: chain.network as `solana:${string}`,
    amount: '10000',
    asset: chain.usdcMint,
    payTo,
    maxTimeoutSeconds: 60,
    extra: { feePayer: feePayer.address as string },
  }
  const facilitator = new SvmFacilitator(toFacilitatorSvmSigner(feePayer, { defaultRpcUrl: rpc.url }))

  const created = await new ExactSvmScheme(buyer, { rpcUrl: rpc.url }).createPaymentPayload(2, accepted)
  const payment = { ...created, resource, accepted }
  t.match(await facilitator.verify(payment, accepted), { isValid: true, payer: buyer.address })
  t.match(await facilitator.settle(payment, accepted), { success: true })
  t.equal(chain.balanceUsdc(payTo), 10_000n)
  t.match(await facilitator.verify(payment, accepted), { isValid: false }, 'a used one is found out')
  t.equal(rpc.forwarded('sendTransaction'), 1)
})
