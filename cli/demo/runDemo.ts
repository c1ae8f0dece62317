import { formatAmount } from '../../core/domain/money.ts'
import { networkTitle } from '../../core/domain/network.ts'
import { visibleText } from '../../core/text/visibleText.ts'
import { createOutput, type Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { fillMarket } from './fillMarket.ts'
import { type DemoPayment, holds, payOnce } from './payOnce.ts'
import { buyWithApproval, buyWithinRules, playOwner } from './showVault.ts'
import { type Demo, startDemo } from './startDemo.ts'
import { type DemoVault, startDemoVault } from './startDemoVault.ts'

/** Where the demo listens, and a free port when somebody else does. */
const DEFAULT_PORT = 8080

export interface DemoFlags {
  readonly once?: true
  readonly json?: true
  readonly port?: string
}

/** Runs the demo. @returns the exit status */
export async function runDemo(flags: DemoFlags): Promise<number> {
  const output = createOutput({
    stdout: process.stdout,
    stderr: process.stderr,
    json: flags.json,
    env: process.env,
  })
  const port = Number(flags.port ?? (flags.once ? 0 : DEFAULT_PORT))
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    return output.fail(
      new UsageError(`Expected --port to be a port from 0 to 65535, got ${JSON.stringify(flags.port)}.`),
    )
  // A program reads the paid calls on stdout, one object a line: what goes on is told beside them.
  const tell = (text: string) =>
    output.isJson
      ? void process.stderr.write(`${text.split('\n').map(visibleText).join('\n')}\n`)
      : output.say(text)
  let demo: Demo | undefined
  let vault: DemoVault | undefined
  try {
    demo = await startDemo({
      port,
      ...(!flags.once && { evmPort: 8545 }),
      onStep: (text) => tell(`• ${text}`),
    })
    let allHold = true
    for (const buyer of demo.buyers) {
      tell(
        `• Calling ${demo.link.url}: 402, price ${demo.link.price} USDC; paying on ${titleOf(buyer.network)}`,
      )
      const payment = await payOnce(demo, buyer, 'Lisbon')
      show(output, payment)
      allHold &&= holds(payment)
    }
    const stopped = abortedBySignals()
    tell('• Starting a vault with a wallet of its own, and letting an agent in')
    vault = await startDemoVault(demo)
    const act = { demo, vault, signal: stopped.signal, tell }
    allHold = (await buyWithinRules(act)) && allHold
    if (flags.once) return (await buyWithApproval(act, playOwner(act))) && allHold ? 0 : 1
    tell(
      '• Filling the marketplace: two more stores, a month of sales, reviews, a payment session and a webhook',
    )
    const { checkoutUrl } = await fillMarket(demo)
    explain(tell, demo, checkoutUrl)
    const open = buyWithApproval(act, (id) => invite(vault!, id, tell))
    open.catch((error) => stopped.signal.aborted || output.warn(String((error as Error).message)))
    await untilAborted(stopped.signal)
    await open.catch(() => undefined)
    return 0
  } catch (error) {
    return output.fail(error)
  } finally {
    await vault?.close()
    await demo?.close()
  }
}

/** How the person at the terminal answers the vault's question. */
async function invite(vault: DemoVault, id: string, tell: (text: string) => void): Promise<void> {
  const { owner, home, passwordFile } = vault
  const link = await owner.call<{ url: string }>('POST', '/v1/vault/owner/links', {}).catch(() => undefined)
  tell("  You are the vault's owner. Allow it within five minutes:")
  tell(`    npx tollgate vault approve ${id} --home ${home}`)
  if (link !== undefined) tell(`  or in a browser, with a link that works once: ${link.url}`)
  tell(`  The vault's password, should you lock it: in ${passwordFile}`)
}

function show(output: Output, { answer, ...payment }: DemoPayment): void {
  const usdc = (atomic: string) => formatAmount(BigInt(atomic), 6, 2)
  output.result(
    payment,
    [
      `  ${payment.status} ${JSON.stringify(answer)}`,
      `  purchase     ${payment.purchaseId}`,
      `  transaction  ${payment.transaction}`,
      `  seller       ${usdc(payment.sellerBeforeAtomic)} → ${usdc(payment.sellerAfterAtomic)} USDC`,
      `  same payment for another call: ${payment.replay.status} ${payment.replay.code}`,
    ].join('\n'),
  )
}

function explain(tell: (text: string) => void, demo: Demo, checkoutUrl: string): void {
  const [evmBuyer] = demo.buyers
  const { gatewayUrl, adminUrl } = demo.tollgate
  tell(`
Everything is running until you press Ctrl-C.

  gateway        ${gatewayUrl}
  Docs           ${gatewayUrl}/docs
  marketplace    ${gatewayUrl}
  store          ${gatewayUrl}/demo
  a link's page  ${gatewayUrl}/demo/weather
  checkout       ${checkoutUrl}
  dashboard      ${gatewayUrl}/dashboard   (sign in with the seller's wallet)
  operator       ${gatewayUrl}/operator   (token ${demo.operatorToken})
  paid link      ${demo.link.url}
  free link      ${demo.freeLink.url}
  faucet         ${demo.faucetLink.url}?address=…   (5 USDC for a wallet of yours)
  metrics        ${adminUrl}/metrics
  sample API     ${demo.sample.url}
  EVM node       ${demo.evm.rpcUrl}   (chain ${demo.evm.chainId})
  Solana node    ${demo.solana.rpcUrl}   (${demo.solana.network})
  seller's key   ${demo.apiKey}   (of the API)
  its wallet     ${demo.seller.evmPrivateKey}   (holds test USDC on the local chain only)

See the price:
  curl -i ${demo.link.url}

Pay it with this wallet (it holds test USDC on the local chain only):
  TOLLGATE_EVM_KEY=${evmBuyer?.privateKey} \\
    npx tollgate pay ${demo.link.url} --network base-sepolia --rpc ${demo.evm.rpcUrl}
`)
}

const titleOf = (network: string) => networkTitle(network)

function abortedBySignals(): AbortController {
  const controller = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => controller.abort())
  return controller
}

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
