import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { runTollgate } from '../e2e/helpers/child.ts'
import { eventually } from '../e2e/helpers/eventually.ts'
import { freePort } from '../helpers/freePort.ts'

const root = resolve(import.meta.dirname, '../..')

/** The shell blocks below a heading of a guide, as a newcomer copies them. */
const blocksBelow = (file: string, heading: string): string[] => {
  const guide = readFileSync(join(root, file), 'utf8')
  const [, section = ''] = guide.split(`\n## ${heading}\n`)
  return [...section.split('\n## ')[0]!.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, code]) => code!)
}

t.test('who copies the lines of the README has a vault, and an agent that paid a call from it', async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'newcomer-'))
  t.teardown(() => rmSync(home, { recursive: true, force: true }))
  mkdirSync(join(home, 'bin'))
  const [gatewayPort, vaultPort] = [await freePort(), await freePort()]
  const demo = runTollgate(t, ['demo', '--port', String(gatewayPort)])
  await demo.said('EVM node  ')
  const [, evmNode] = /EVM node\s+(http:\S+)/.exec(demo.stdout() + demo.stderr())!

  // `npx tollgate` of this checkout, and ports that nobody else has.
  const npx = join(home, 'bin', 'npx')
  writeFileSync(npx, `#!/bin/sh\nshift\nexec '${process.execPath}' '${join(root, 'cli', 'bin.js')}' "$@"\n`)
  chmodSync(npx, 0o755)
  const here = (lines: string): string =>
    lines
      .replaceAll('http://127.0.0.1:8545', evmNode!)
      .replaceAll('127.0.0.1:8080', `127.0.0.1:${gatewayPort}`)
      .replaceAll('127.0.0.1:8420', `127.0.0.1:${vaultPort}`)
      .replaceAll(' --testnets ', ` --testnets --port ${vaultPort} `)
  const copy = (lines: string) =>
    spawn('sh', ['-ec', here(lines)], {
      cwd: home,
      env: { HOME: home, PATH: `${join(home, 'bin')}:${process.env['PATH']}` },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Its vault ends with it.
      detached: true,
    })

  const [begin, go] = blocksBelow('README.md', 'A vault for agents') as [string, string]
  const vault = copy(begin)
  const vaultSaid = Promise.all([text(vault.stdout), text(vault.stderr)])
  const vaultGone = once(vault, 'exit')
  t.teardown(async () => {
    if (vault.exitCode === null) process.kill(-vault.pid!, 'SIGTERM')
    await vaultGone
  })
  const isUp = eventually(async () => {
    const answer = await fetch(`http://127.0.0.1:${vaultPort}/v1/capabilities`).catch(() => undefined)
    return answer?.status
  })
  const early = vaultGone.then(async () => {
    throw new Error((await vaultSaid).join('\n'))
  })
  // At the end it is ended.
  early.catch(() => undefined)
  await Promise.race([isUp, early])

  const buying = copy(go)
  const bought = once(buying, 'exit')
  const [stdout, stderr, [status]] = await Promise.all([text(buying.stdout), text(buying.stderr), bought])
  t.equal(status, 0, stderr)
  t.match(stdout, /"usdc": ?"5/, 'the faucet filled the wallet')
  t.match(stdout, /"temperatureC": ?21/, 'what was bought')
  t.match(`${stdout}${stderr}`, /paid/i)
  for (const file of ['pw', 'token'])
    t.equal(statSync(join(home, file)).mode & 0o077, 0, `${file} is private`)
})
