import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { encodeFunctionData, erc20Abi, serializeTransaction } from 'viem'
import type { Bench } from './bench.ts'
import type { Load } from './harness/load.ts'
import { type Candidate, costOf, measure } from './harness/rounds.ts'
import type { Started } from './harness/servers.ts'
import type { Measured, StatKey } from './stats.ts'

/** More than are signed in a round; what is left over is thrown away. */
const signaturesPerSecond = 5_000

/**
 * The vault by itself: an address, a stored value, and a transaction that a rule approves, with its budget journaled and
 * flushed before the signature leaves; all with an agent's token, an entry in the log each. Time of the signing process
 * counts. Then an address through relay and proxy, all of it in one process.
 */
export const vault: Bench = {
  keys: [
    'vault_address_1',
    'vault_address_16',
    'vault_read_1',
    'vault_read_16',
    'vault_sign_1',
    'vault_sign_16',
    'vault_relay_1',
  ],
  async run(context) {
    const { servers, wants, seconds } = context
    const folder = servers.folder()
    const direct = await servers.start('vault.ts', { folder, isRemote: false })
    const remote = wants('vault_relay_1')
      ? await servers.start('vault.ts', { folder: servers.folder(), isRemote: true })
      : null
    const readFile = join(folder, 'read.json')
    writeFileSync(readFile, JSON.stringify({ scope: 'identity.name', agent_name: 'payer' }))
    const bodiesFile = join(folder, 'sign.jsonl')
    let nonce = 0
    const freshTransfers = (): Partial<Load> => {
      const count = Math.ceil(signaturesPerSecond * seconds)
      writeFileSync(bodiesFile, Array.from({ length: count }, () => signBody(nonce++)).join('\n'))
      return { method: 'POST', path: '/v1/vault/sign', bodiesFile }
    }
    const calls: Readonly<Record<string, () => Partial<Load>>> = {
      address: () => ({ path: '/address/base' }),
      read: () => ({ method: 'POST', path: '/v1/vault/read', bodyFile: readFile }),
      sign: freshTransfers,
    }

    const candidates = Object.entries(calls).flatMap(([call, load]) =>
      [1, 16].map((connections) =>
        candidate(`vault_${call}_${connections}` as StatKey, direct, connections, load),
      ),
    )
    if (remote !== null) candidates.push(candidate('vault_relay_1', remote, 1, calls['address']!))
    const wanted = candidates.filter(({ name }) => wants(name))
    const costs = await measure(wanted, context)
    return Object.fromEntries(wanted.map(({ name }) => [name, 1e6 / costOf(costs, name)])) as Measured
  },
}

function candidate(
  name: StatKey,
  server: Started,
  connections: number,
  load: () => Partial<Load>,
): Candidate & { readonly name: StatKey } {
  const headers = { Authorization: `Bearer ${server.facts['token']}` }
  return {
    name,
    server,
    expect: 'success',
    load: () => ({ path: '/', ...load(), connections, headers, host: `127.0.0.1:${server.port}` }),
  }
}

const usdc = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
const data = encodeFunctionData({
  abi: erc20Abi,
  functionName: 'transfer',
  args: ['0x000000000000000000000000000000000000dEaD', 1n],
})

/** One smallest unit of USDC, in bytes that were not requested before. */
function signBody(nonce: number): string {
  const unsigned_tx = serializeTransaction({
    chainId: 8453,
    type: 'eip1559',
    nonce,
    gas: 60_000n,
    maxFeePerGas: 1_000_000n,
    maxPriorityFeePerGas: 1n,
    to: usdc,
    data,
  })
  return JSON.stringify({
    chain: 'base',
    agent_name: 'payer',
    amount: 0.000001,
    currency: 'USDC',
    unsigned_tx,
  })
}
