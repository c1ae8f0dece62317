import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { PairingOffer, PairingSummary } from '../../../vault/ports/pairings.ts'
import { type Child, runTollgate } from './child.ts'
import { eventually } from './eventually.ts'
import type { PayingVault } from './payingVault.ts'

/** A process that can be killed and started again at the same address. */
export interface Restartable {
  readonly url: string
  /** kill -9; fulfilled when it is gone. */
  kill(): Promise<void>
  start(): Promise<void>
}

/** `tollgate relay`, without TLS, for this machine only. */
export async function startRelayProcess(t: Pick<Test, 'teardown'>): Promise<Restartable> {
  const run = async (port: string): Promise<Child> => {
    const child = runTollgate(t, ['relay', '--port', port])
    await child.waitForOutput('the relay is running')
    return child
  }
  let child = await run('0')
  const url = /"url":"(ws:[^"]+)"/.exec(child.stderr())![1]!
  return {
    url,
    kill: () => killed(child),
    async start() {
      child = await run(new URL(url).port)
    },
  }
}

/**
 * Pairs an agent of another machine with the vault as its owner does: the vault's command, the same four words on both
 * sides, the owner's yes. Then `tollgate proxy` stands beside the agent.
 *
 * @param relay the relay's address as the proxy sees it
 */
export async function startProxyProcess(
  t: Pick<Test, 'teardown'>,
  vault: PayingVault,
  relay: string,
): Promise<Restartable> {
  const home = mkdtempSync(join(tmpdir(), 'tollgate-proxy-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  const offer = await eventually(() =>
    vault.owner.call<PairingOffer>('POST', '/v1/vault/pairings', {
      service_id: 'far-away',
      agent: 'shopper',
    }),
  )
  const words = offer.command.split(' ').slice(1)
  const fixed = [
    ...without(without(without(words, '--pair'), '--port'), '--relay'),
    '--relay',
    relay,
    '--home',
    home,
  ]
  const first = runTollgate(t, [...fixed, '--port', '0', '--pair', offer.token])
  await first.waitForOutput('"phrase"')
  const phrase = /"phrase":"([^"]+)"/.exec(first.stdout())![1]
  const asked = await eventually(async () => {
    const { pairings } = await vault.owner.call<{ pairings: PairingSummary[] }>('GET', '/v1/vault/pairings')
    return pairings.find((one) => one.id === offer.id && one.phrase !== null)
  })
  if (asked.phrase !== phrase)
    throw new Error(`The words differ: ${phrase} here, ${asked.phrase} at the vault.`)
  await vault.owner.call('POST', `/v1/vault/pairings/${offer.id}/confirm`, {})
  await first.waitForOutput('"url"')
  const url = /"url":"([^"]+)"/.exec(first.stdout())![1]!
  let child = first
  return {
    url,
    kill: () => killed(child),
    async start() {
      child = runTollgate(t, [...fixed, '--port', new URL(url).port])
      await child.waitForOutput('"url"')
    },
  }
}

async function killed(child: Child): Promise<void> {
  child.signal('SIGKILL')
  await child.exited
}

/** The words of a command without an option and its value. */
const without = (words: readonly string[], option: string): string[] =>
  words.filter((word, i) => word !== option && words[i - 1] !== option)
