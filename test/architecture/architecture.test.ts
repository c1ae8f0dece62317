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
const MIN_MODULES = 200

/** Folders whose rooms, the folders in them, are read one by one. */
const separated = ['adapters', 'admin-api', 'vault', 'cli', 'core']

/** The folder of a module and its room there; no room for a test, and for what lies in the folder itself. */
function roomOf(module: string): [folder: string, room: string | undefined] {
  const [folder = '', room, ...rest] = module.split('/')
  return [folder, rest.length === 0 || /\.(test|contract)\.ts$/.test(module) ? undefined : room]
}

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
  t.ok(summary.totalCruised > MIN_MODULES, `${summary.totalCruised} modules were looked at`)
})

t.test('no two rooms of a folder import each other', async (t) => {
  const { modules } = await violationsOf(root, folders)
  const imports = new Set<string>()
  for (const { source, dependencies } of modules) {
    const [folder, room] = roomOf(source)
    if (!separated.includes(folder) || room === undefined) continue
    for (const { resolved } of dependencies) {
      const [other, itsRoom] = roomOf(resolved)
      if (other === folder && itsRoom !== undefined && itsRoom !== room)
        imports.add(`${folder}: ${room} ${itsRoom}`)
    }
  }
  const both = [...imports].filter((one) => imports.has(one.replace(/(\S+) (\S+)$/, '$2 $1')))
  t.strictSame(both, [], 'each pair has a direction')
  t.ok(imports.size > separated.length, `${imports.size} pairs of rooms`)
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
