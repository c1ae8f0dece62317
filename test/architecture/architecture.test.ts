import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { cruise, type ICruiseOptions, type ICruiseResult } from 'dependency-cruiser'
import extractTsConfig from 'dependency-cruiser/config-utl/extract-ts-config'
import t from 'tap'

const root = resolve(import.meta.dirname, '../..')
const rules = createRequire(import.meta.url)('../../.dependency-cruiser.cjs')
const folders = [
  'core',
  'gateway',
  'plugins',
  'admin-api',
  'vault',
  'adapters',
  'buyer',
  'localnet',
  'cli',
  'web',
]
/** Far below what there is, far above nothing: a cruise that sees no modules must not pass. */
const LEAST_MODULES = 200

async function violationsOf(baseDir: string, paths: string[]): Promise<ICruiseResult> {
  const options: ICruiseOptions = {
    ...rules.options,
    baseDir,
    validate: true,
    ruleSet: { forbidden: rules.forbidden },
  }
  const tsConfig = extractTsConfig(resolve(root, 'tsconfig.json'))
  const { output } = await cruise(paths, options, {}, { tsConfig })
  return output as ICruiseResult
}

t.test('every module imports only what its place allows', async (t) => {
  const { summary } = await violationsOf(root, folders)
  const found = summary.violations.map((v) => `${v.rule.name}: ${v.from} → ${v.to}`)
  t.strictSame(found, [], 'no forbidden import')
  t.ok(summary.totalCruised > LEAST_MODULES, `${summary.totalCruised} modules were looked at`)
})

t.test('each rule fails on the tree that breaks it', async (t) => {
  const { summary } = await violationsOf(resolve(import.meta.dirname, 'fixture'), [
    'core',
    'gateway',
    'plugins',
    'vault',
    'adapters',
    'buyer',
    'cli',
    'admin-api',
    'web',
  ])
  const broken = new Set(summary.violations.map((v) => v.rule.name))
  for (const { name } of rules.forbidden) t.ok(broken.has(name), `${name} is noticed`)
})
