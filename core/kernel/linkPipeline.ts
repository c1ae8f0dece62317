import { isDeepStrictEqual } from 'node:util'
import { redact } from '../config/redact.ts'
import type { ServedLink } from '../domain/link.ts'
import { compile, Shapes } from './compile.ts'
import type { Generation } from './generation.ts'
import type { ReadyPlugin, When } from './readyPlugin.ts'

/** The pipeline of a link, as `tollgate check` and the operator's page show it. */
export interface LinkPipeline {
  readonly steps: readonly { readonly phase: string; readonly plugin: string }[]
  /** The plugins that run after the response, first those of phase `deliver`, then those of `log`. */
  readonly deliver: readonly string[]
  readonly log: readonly string[]
  /** Why the pipeline is invalid, as messages. If there are any, the pipeline refuses every call. */
  readonly problems: readonly string[]
  /** True for a paid link if the gateway has no payment plugins. The pipeline then refuses every call. */
  readonly takesNoPayment: boolean
}

/** One entry of the configuration's plugin list that has hooks for a link. */
export interface PipelineEntry {
  readonly plugin: string
  readonly phases: readonly string[]
  /** The links for which the entry runs. Undefined for all links. */
  readonly when: When | undefined
  /** Options by name. Secrets are hidden, and so are texts without a schema. */
  readonly settings: readonly {
    readonly name: string
    readonly value: unknown
    /** True if the value equals the default. */
    readonly isDefault: boolean
  }[]
}

/** Builds the pipeline of a link, describes it and disposes of it. */
export function linkPipelineOf(generation: Generation, link: ServedLink): LinkPipeline {
  const { pipeline, problems, takesNoPayment } = generation.examine(link)
  const { steps, afterResponse } = pipeline?.shape ?? { steps: [], afterResponse: [] }
  pipeline?.dispose()
  const after = (phase: string) => afterResponse.filter((s) => s.phase === phase).map((s) => s.plugin)
  return {
    steps: steps.map(({ phase, plugin }) => ({ phase, plugin })),
    deliver: after('deliver'),
    log: after('log'),
    problems,
    takesNoPayment,
  }
}

/** The entries of the configuration that run for a link, in the configuration's order. */
export function pipelineEntriesOf(generation: Generation, link: ServedLink): PipelineEntry[] {
  return generation.plugins.flatMap((ready) => {
    const phases = phasesOf(ready, link)
    if (phases.length === 0) return []
    const { plugin, options, when } = ready
    return [{ plugin: plugin.name, phases, when, settings: settingsOf(plugin.options, options) }]
  })
}

function phasesOf(ready: ReadyPlugin, link: ServedLink): string[] {
  try {
    const pipeline = compile(link, [ready], new Shapes([ready], () => undefined))
    pipeline.dispose()
    const { steps, afterResponse } = pipeline.shape
    return [...steps, ...afterResponse].map(({ phase }) => phase)
  } catch {
    // The plugin failed to return its hooks, which `problems` of the pipeline already reports.
    return []
  }
}

interface Schema {
  readonly properties?: Readonly<Record<string, { readonly default?: unknown }>>
}

function settingsOf(schema: Schema, options: unknown): PipelineEntry['settings'] {
  const shown = redact(options ?? {}, schema as Parameters<typeof redact>[1]) as Record<string, unknown>
  return Object.entries(shown).map(([name, value]) => ({
    name,
    value,
    isDefault: isDeepStrictEqual(
      (options as Record<string, unknown>)[name],
      schema.properties?.[name]?.default,
    ),
  }))
}
