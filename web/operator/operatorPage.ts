import { Empty, Skeleton } from '../components/card.ts'
import { html } from '../html.ts'
import { Slot } from '../island/island.ts'
import { Frame } from '../shell/frame.ts'

export interface OperatorData {
  readonly serviceName: string
}

/** The operator's page before its script has loaded. */
export const OperatorPage = ({ data }: { readonly data: OperatorData }) =>
  html`<${Slot} name="operator" props=${data}>
    <${Frame} serviceName=${data.serviceName} part="Operator" home="/operator" entries=${[]}>
      <noscript><${Empty} title="This page needs JavaScript"><p>Run <code>tollgate doctor</code> or <code>tollgate check</code> instead.</p><//></noscript>
      <${Skeleton} count=${3} isTall=${true} />
    <//>
  <//>`
