import { readFileSync } from 'node:fs'
import t from 'tap'
import { compileContracts } from './compileContracts.ts'

t.test('every committed artefact is what its source compiles to', async (t) => {
  const compiled = compileContracts()
  t.ok(compiled.has('TestUSDC'), 'the token is among them')
  for (const [name, artefact] of compiled) {
    const committed: unknown = JSON.parse(
      readFileSync(new URL(`./artefacts/${name}.json`, import.meta.url), 'utf8'),
    )
    t.same(committed, artefact, `${name}: run node localnet/evm/compileContracts.ts when it differs`)
  }
})
