import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import t from 'tap'
import { configSchema } from '../core/config/schema.ts'
import { createPluginLoader } from '../core/kernel/pluginLoader.ts'
import type { AnyGatewayPlugin } from '../core/plugin/gateway.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'
import { vaultConfigSchema } from '../vault/config/vaultConfigSchema.ts'
import { builtInVaultPlugins } from '../vault/plugins/builtIn.ts'

function writePlugin(dir: string, file: string, text: string): void {
  mkdirSync(join(dir, file, '..'), { recursive: true })
  writeFileSync(join(dir, file), text)
}
const source = (name: string) =>
  `{ name: '${name}', api: 1, options: { type: 'object', additionalProperties: false, properties: {} }, needs: [], setup: () => ({ route: () => undefined }) }`

t.test('the loader finds built-in plugins, files beside the configuration and packages', async (t) => {
  const dir = t.testdir({})
  const loader = createPluginLoader(builtInPlugins, dir)
  t.equal((await loader.load('x402')).name, 'x402')
  writePlugin(dir, 'own.mjs', `export default ${source('own')}`)
  writePlugin(dir, 'typed.ts', `const name: string = 'typed'\nexport default { ...${source('x')}, name }`)
  t.equal((await loader.load('./own.mjs')).name, 'own')
  t.equal((await loader.load('./typed.ts')).name, 'typed')
  t.equal((await loader.load(join(dir, 'own.mjs'))).name, 'own')
  const packages: Record<string, [manifest: object, file: string, text: string]> = {
    'esm-only': [
      { type: 'module', exports: { import: './index.js' } },
      'index.js',
      `export default ${source('esm-only')}`,
    ],
    '@scope/cjs': [{ main: 'main.cjs' }, 'main.cjs', `module.exports = ${source('@scope/cjs')}`],
    compiled: [
      { main: 'main.cjs' },
      'main.cjs',
      `Object.defineProperty(exports, '__esModule', { value: true }); exports.default = ${source('compiled')}`,
    ],
    'with-path': [
      { type: 'module', exports: { './plugin': './p.js' } },
      'p.js',
      `export default ${source('with-path')}`,
    ],
  }
  for (const [name, [manifest, file, text]] of Object.entries(packages)) {
    writePlugin(dir, `node_modules/${name}/package.json`, JSON.stringify({ name, ...manifest }))
    writePlugin(dir, `node_modules/${name}/${file}`, text)
    t.equal((await loader.load(name === 'with-path' ? 'with-path/plugin' : name)).name, name)
  }
})

t.test('what is no plugin is refused in words that help', async (t) => {
  const dir = t.testdir({})
  const loader = createPluginLoader(builtInPlugins, dir)
  const refused = async (use: string, text: string | null, message: RegExp) => {
    if (text !== null) writePlugin(dir, use, text)
    await t.rejects(loader.load(use), { name: 'PluginLoadError', message }, use)
  }
  await refused(
    'no-such-thing',
    null,
    /Cannot load plugin "no-such-thing".*built-in name \(rate-limit, .*\), an installed package, or a path/s,
  )
  await refused('./missing.js', null, /Cannot load plugin ".\/missing.js"/)
  await refused('./syntax.mjs', 'export default {', /Cannot load plugin/)
  await refused('./throws.mjs', 'throw new Error("at load")', /at load/)
  await refused('./none.mjs', 'export const a = 1', /it has no default export that is an object/)
  await refused('./null.mjs', 'export default null', /it has no default export that is an object/)
  await refused(
    './api.mjs',
    `export default { ...${source('x')}, api: 2 }`,
    /written for version 2 of the plugin contract/,
  )
  await refused('./name.mjs', `export default { ...${source('')} }`, /its name is missing/)
  await refused(
    './options.mjs',
    `export default { ...${source('x')}, options: null }`,
    /its options schema is missing/,
  )
  await refused(
    './needs.mjs',
    `export default { ...${source('x')}, needs: 'clock' }`,
    /its list of needs is missing/,
  )
  await refused(
    './setup.mjs',
    `export default { ...${source('x')}, setup: 1 }`,
    /its setup function is missing/,
  )
})

t.test('a changed file is read anew, an unchanged one is not', async (t) => {
  const dir = t.testdir({})
  const loader = createPluginLoader<AnyGatewayPlugin>([], dir)
  writePlugin(dir, 'own.mjs', `export default ${source('first')}`)
  const first = await loader.load('./own.mjs')
  t.equal(await loader.load('./own.mjs'), first)
  await new Promise((resolve) => setTimeout(resolve, 20))
  writePlugin(dir, 'own.mjs', `export default ${source('second')}`)
  t.equal((await loader.load('./own.mjs')).name, 'second')
})

t.test('schemas that are taken for valid are', (t) => {
  const ajv = new Ajv()
  const ours = [...builtInPlugins, ...builtInVaultPlugins].map(
    ({ name, options }) => [name, options] as const,
  )
  for (const [name, schema] of [
    ...ours,
    ['the configuration', configSchema] as const,
    ["the vault's", vaultConfigSchema] as const,
  ])
    t.ok(ajv.validateSchema(schema), name)
  t.end()
})
