import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const SOURCES = new URL('./contracts/', import.meta.url)
const ARTEFACTS = new URL('./artefacts/', import.meta.url)
/** Contracts that a local chain installs; the rest of the sources are parts of these. */
const WANTED = ['TestUSDC', 'SilentUSDC', 'Multicall3', 'SmartWallet', 'SmartWalletFactory']

/** One contract as it is kept beside its source. */
export type Artefact = {
  contractName: string
  compiler: string
  /** SHA-256 over every source file, name and text, so that a changed source without a new artefact shows. */
  sourcesSha256: string
  abi: unknown[]
  deployedBytecode: `0x${string}`
  /** Storage slot of each state variable; the chain writes balances there. */
  storageSlots: Record<string, number>
}

type SolcOutput = {
  errors?: { severity: string; formattedMessage: string }[]
  contracts: Record<
    string,
    Record<
      string,
      {
        abi: unknown[]
        evm: { deployedBytecode: { object: string } }
        storageLayout: { storage: { label: string; slot: string; offset: number }[] }
      }
    >
  >
}

/**
 * Compiles the local chain's contracts with the `solc` of node_modules, offline, and returns the artefacts by name.
 *
 * Run as a program it writes them: `node localnet/evm/compileContracts.ts`.
 *
 * @throws {Error} with the compiler's own words when a source does not compile.
 */
export function compileContracts(): Map<string, Artefact> {
  const solc = createRequire(import.meta.url)('solc') as { compile(input: string): string; version(): string }
  const names = readdirSync(SOURCES)
    .filter((name) => name.endsWith('.sol'))
    .sort()
  const sources = Object.fromEntries(
    names.map((name) => [name, { content: readFileSync(new URL(name, SOURCES), 'utf8') }]),
  )
  const output = JSON.parse(
    solc.compile(JSON.stringify({ language: 'Solidity', sources, settings })),
  ) as SolcOutput
  const failures = (output.errors ?? []).filter((error) => error.severity !== 'info')
  if (failures.length > 0) throw new Error(failures.map((error) => error.formattedMessage).join('\n'))

  const sourcesSha256 = createHash('sha256').update(JSON.stringify(sources)).digest('hex')
  const artefacts = new Map<string, Artefact>()
  for (const file of Object.values(output.contracts)) {
    for (const [contractName, contract] of Object.entries(file)) {
      if (!WANTED.includes(contractName)) continue
      artefacts.set(contractName, {
        contractName,
        compiler: solc.version(),
        sourcesSha256,
        abi: contract.abi,
        deployedBytecode: `0x${contract.evm.deployedBytecode.object}`,
        storageSlots: Object.fromEntries(
          contract.storageLayout.storage.map(({ label, slot }) => [label, Number(slot)]),
        ),
      })
    }
  }
  return artefacts
}

const settings = {
  // Code without a metadata hash: the bytes then depend on the source alone, not on comments or paths.
  metadata: { bytecodeHash: 'none', appendCBOR: false },
  optimizer: { enabled: true, runs: 200 },
  evmVersion: 'shanghai',
  outputSelection: { '*': { '*': ['abi', 'evm.deployedBytecode.object', 'storageLayout'] } },
}

if (import.meta.main) {
  for (const [name, artefact] of compileContracts()) {
    writeFileSync(new URL(`${name}.json`, ARTEFACTS), `${JSON.stringify(artefact, null, 2)}\n`)
  }
}
