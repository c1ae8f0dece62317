import { rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { formatAmount } from '../../core/domain/money.ts'
import { networkTitle } from '../../core/domain/network.ts'
import { visibleText } from '../../core/text/visibleText.ts'
import type { DemoBuyer } from '../../localnet/demoWallets.ts'
import { createOutput, type Output } from '../output/createOutput.ts'
import { UsageError } from '../output/exitCodes.ts'
import { fillMarket } from './fillMarket.ts'
import { buyWithApproval, buyWithinRules, playOwner } from './showVault.ts'
import { type Demo, startDemo } from './startDemo.ts'
import { type DemoVault, startDemoVault } from './startDemoVault.ts'

/** Default port of the demo. If another program uses it, the demo takes a free port. */
const DEFAULT_PORT = 8080

export interface DemoFlags {
  readonly once?: true
  readonly json?: true
  readonly port?: string
  readonly writeEnv?: string
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
  // A program reads only the paid calls on stdout, one object per line, so progress is written to stderr.
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
    tell('• Starting a vault with its own wallet, and adding an agent')
    vault = await startDemoVault(demo)
    const act = { demo, vault, signal: stopped.signal, tell }
    allHold = (await buyWithinRules(act)) && allHold
    if (flags.once) return (await buyWithApproval(act, playOwner(act))) && allHold ? 0 : 1
    tell(
      '• Filling the marketplace: two more stores, a month of sales, reviews, a payment session and a webhook',
    )
    const { checkoutUrl } = await fillMarket(demo)
    if (flags.writeEnv !== undefined) writeEnvFile(flags.writeEnv, demo)
    explain(tell, demo, checkoutUrl)
    if (flags.writeEnv !== undefined)
      tell(
        `In a second terminal, this sets the addresses and keys to sell and to buy:\n  . '${resolve(flags.writeEnv)}'\n`,
      )
    const open = buyWithApproval(act, (id) => invite(vault!, id, tell))
    open.catch((error) => stopped.signal.aborted || output.warn(String((error as Error).message)))
    await untilAborted(stopped.signal)
    await open.catch(() => undefined)
    return 0
  } catch (error) {
    return output.fail(error)
  } finally {
    if (flags.writeEnv !== undefined) rmSync(flags.writeEnv, { force: true })
    await vault?.close()
    await demo?.close()
  }
}

/**
 * Writes the variables that a second terminal needs to sell and buy here. Only the user can read the file, because it contains
 * keys.
 */
function writeEnvFile(file: string, { tollgate, apiKey, buyers, evm }: Demo): void {
  const values = {
    TOLLGATE_URL: tollgate.gatewayUrl,
    TOLLGATE_API_KEY: apiKey,
    TOLLGATE_EVM_KEY: buyers[0]?.privateKey,
    TOLLGATE_RPC_URL: evm.rpcUrl,
  }
  const lines = Object.entries(values).map(([name, value]) => `export ${name}='${value}'\n`)
  rmSync(file, { force: true })
  writeFileSync(file, lines.join(''), { mode: 0o600, flag: 'wx' })
}

/** Tells the person at the terminal how to approve the vault's request. */
async function invite(vault: DemoVault, id: string, tell: (text: string) => void): Promise<void> {
  const { owner, home, passwordFile } = vault
  const link = await owner.call<{ url: string }>('POST', '/v1/vault/owner/links', {}).catch(() => undefined)
  tell("  You are the vault's owner. Approve the payment within five minutes:")
  tell(`    npx tollgate vault approve ${id} --home ${home}`)
  if (link !== undefined) tell(`  or in a browser, with a link that works once: ${link.url}`)
  tell(`  The vault's password, in case you lock it: ${passwordFile}`)
}

function show(output: Output, { response, ...payment }: DemoPayment): void {
  const usdc = (atomic: string) => formatAmount(BigInt(atomic), 6, 2)
  output.result(
    payment,
    [
      `  ${payment.status} ${JSON.stringify(response)}`,
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
  docs           ${gatewayUrl}/docs
  marketplace    ${gatewayUrl}
  store          ${gatewayUrl}/demo
  a link's page  ${gatewayUrl}/demo/weather
  checkout       ${checkoutUrl}
  dashboard      ${gatewayUrl}/dashboard   (sign in with the seller's wallet)
  operator       ${gatewayUrl}/operator   (token ${demo.operatorToken})
  paid link      ${demo.link.url}
  free link      ${demo.freeLink.url}
  faucet         ${demo.faucetLink.url}?address=…   (5 USDC for your wallet)
  metrics        ${adminUrl}/metrics
  sample API     ${demo.sample.url}
  EVM node       ${demo.evm.rpcUrl}   (chain ${demo.evm.chainId})
  Solana node    ${demo.solana.rpcUrl}   (${demo.solana.network})
  API key        ${demo.apiKey}   (of the seller, for the API)
  wallet's key   ${demo.seller.evmPrivateKey}   (of the seller; the wallet holds test USDC on the local chain only)

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

/** One paid call, and the result of presenting its payment for a second call. */
interface DemoPayment {
  readonly network: string
  readonly status: number
  readonly purchaseId: string | null
  readonly transaction: string | null
  readonly amountAtomic: string | null
  readonly sellerBeforeAtomic: string
  readonly sellerAfterAtomic: string
  /** The gateway refuses the payment for a second call, with this status and code. */
  readonly replay: { readonly status: number; readonly code: string | null }
  readonly response: unknown
}

export async function payOnce(demo: Demo, buyer: DemoBuyer, city: string): Promise<DemoPayment> {
  const url = addressOf(demo)
  const before = await demo.sellerBalance(buyer.network)
  const response = await buyer.fetch(`${url}?city=${city}`)
  const body = (await response.json()) as { data?: unknown; _svc?: { purchaseId: string } }
  const receipt = receiptOf(response.headers.get('payment-response'))
  const after = await demo.sellerBalance(buyer.network)
  return {
    network: buyer.network,
    status: response.status,
    purchaseId: body._svc?.purchaseId ?? null,
    transaction: receipt?.transaction ?? null,
    amountAtomic: receipt?.amount ?? null,
    sellerBeforeAtomic: before.toString(),
    sellerAfterAtomic: after.toString(),
    replay: await replay(`${url}?city=${city}-again`, buyer),
    response: body.data ?? body,
  }
}

/** Whether the seller received exactly what the buyer paid, and the payment bought only one call. */
function holds({
  status,
  amountAtomic,
  sellerBeforeAtomic,
  sellerAfterAtomic,
  replay: again,
}: DemoPayment): boolean {
  const moved = BigInt(sellerAfterAtomic) - BigInt(sellerBeforeAtomic)
  return status === 200 && amountAtomic !== null && moved === BigInt(amountAtomic) && again.status === 409
}

async function replay(url: string, buyer: DemoBuyer): Promise<DemoPayment['replay']> {
  const payment = buyer.lastPayment()
  if (payment === undefined) return { status: 0, code: null }
  const response = await fetch(url, { headers: { 'payment-signature': payment } })
  const body = (await response.json()) as { error?: { code?: string } }
  return { status: response.status, code: body.error?.code ?? null }
}

/** The link's address with the listener's actual port. The port in the public URL may have been taken. */
function addressOf({ link, tollgate }: Demo): string {
  return tollgate.gatewayUrl + new URL(link.url).pathname
}

function receiptOf(header: string | null): { transaction: string; amount?: string } | undefined {
  return header === null ? undefined : JSON.parse(Buffer.from(header, 'base64').toString('utf8'))
}
