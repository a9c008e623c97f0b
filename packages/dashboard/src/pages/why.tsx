/** Why a call is allowed or refused: paste what is known of it, and read the explanation. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Attributes, DecisionView } from '@sluice/client'
import { api, redirectIfLoggedOut } from '../api.js'
import { hrefs, navigate, route } from '../router.js'
import '../styles/why.css'
import {
  Button,
  Caller,
  Card,
  CopyButton,
  Empty,
  ErrorNote,
  Link,
  Loading,
  Note,
  Page,
  Row,
  Text,
  TextArea,
  TextField,
} from '../ui/index.js'
import { ruleVerdict } from './why/rule-verdict.js'
import { explainDecision } from './why/explanation.js'
import { ExplanationView } from './why/explanation-view.js'
import { shareableAttributes } from './why/shareable-attributes.js'
import { matchingCall } from './why/matching-call.js'
import { parseCall, attributesText } from './why/parse-call.js'
import type { ParsedCall } from './why/parse-call-object.js'

interface PeekState {
  readonly decision?: DecisionView | undefined
  /** What was asked, with the rule that it was asked about. */
  readonly parsedCall?: PeekRequest | undefined
  readonly error?: unknown
  readonly isBusy: boolean
}

interface PeekRequest {
  readonly call: ParsedCall
  readonly costText: string
  readonly rule: string | undefined
}

const COST = 'cost'
const RULE = 'rule'
/** The caller alone is known: the rest shall be such that the rule is met. */
const MATCH = 'meet'
const RESERVED_PARAMETERS: readonly string[] = [COST, RULE, MATCH]

export function WhyPage() {
  const { query } = route.value
  const queryAttributes = useMemo(() => attributesOf(query), [query])
  const rule = query.get(RULE) ?? undefined
  const [text, setText] = useState(() => attributesText(queryAttributes))
  const [cost, setCost] = useState(query.get(COST) ?? '1')
  const { state, ask: runPeek } = usePeek()
  const parsedCall = useMemo(() => parseCall(text), [text])
  // Who comes here with attributes in the address wants the answer, not a form.
  useEffect(() => {
    if (Object.keys(queryAttributes).length === 0 && rule === undefined) return undefined
    return loadCall(query, (attributes) => {
      setText(attributesText(attributes))
      void runPeek({ call: { attributes, notes: [] }, costText: query.get(COST) ?? '1', rule })
    })
  }, [queryAttributes])
  const { attributes: shareable, withheld } = shareableAttributes(
    parsedCall.attributes,
    queryAttributes,
  )
  const link = whyHref({ ...parsedCall, attributes: shareable }, cost, rule)
  const hasNoAttributes = Object.keys(parsedCall.attributes).length === 0 && rule === undefined
  const isEmpty = parsedCall.problem !== undefined || hasNoAttributes
  const submit = (event: Event) => {
    event.preventDefault()
    if (isEmpty) return
    // The address asks; the same one again asks anew, and so does what may not stand in it.
    if (link === queryHref(query) || withheld.length > 0)
      void runPeek({ call: parsedCall, costText: cost, rule })
    else navigate(link, { replace: true })
  }
  return (
    <Page title="Why?" lead="What a call would get now, and which rule says so. Nothing is spent.">
      <div class="why">
        <Card title="The call">
          <form class="why-form" onSubmit={submit}>
            <TextArea
              label="Attributes, a JSON object, a curl command, or a line of the log"
              value={text}
              onInput={setText}
              rows={8}
              mono
              placeholder={'user=u1\nip=203.0.113.7\nmethod=GET\npath=/v1/orders'}
              error={parsedCall.problem}
            />
            <TextField label="Cost" type="number" min={0} step={1} value={cost} onInput={setCost} />
            <ParsedCallView parsedCall={parsedCall} withheld={withheld} />
            {rule !== undefined && (
              <RuleQuestion
                rule={rule}
                derived={query.has(MATCH) ? derivedNames(queryAttributes, parsedCall) : []}
                hrefWithoutRule={whyHref({ ...parsedCall, attributes: shareable }, cost, undefined)}
              />
            )}
            <Row>
              <Button type="submit" kind="primary" isBusy={state.isBusy} isDisabled={isEmpty}>
                Explain
              </Button>
              <CopyButton text={() => location.origin + link} label="Copy link" />
            </Row>
          </form>
        </Card>
        <PeekResult state={state} />
      </div>
    </Page>
  )
}

/** The call of an address, once the rule that it shall meet is known; returns how to give up. */
function loadCall(query: URLSearchParams, onCall: (attributes: Attributes) => void): () => void {
  const queryAttributes = attributesOf(query)
  const rule = query.has(MATCH) ? query.get(RULE) : null
  let isCurrent = true
  const read =
    rule === null
      ? undefined
      : api.getRule(rule).then(
          (known) => matchingCall(known, queryAttributes),
          // Without the rule nothing can be made up; the answer says what else is wrong.
          (error: unknown) => (redirectIfLoggedOut(error) ? undefined : queryAttributes),
        )
  if (read === undefined) onCall(queryAttributes)
  void read?.then((attributes) => {
    if (isCurrent && attributes !== undefined) onCall(attributes)
  })
  return () => {
    isCurrent = false
  }
}

const derivedNames = (queryAttributes: Attributes, { attributes }: ParsedCall): readonly string[] =>
  Object.keys(attributes).filter((name) => !Object.hasOwn(queryAttributes, name))

/** Asks the server; an answer that comes late is dropped. */
function usePeek() {
  const [state, setState] = useState<PeekState>({ isBusy: false })
  const latestId = useRef(0)
  const runPeek = async (parsedCall: PeekRequest) => {
    const { attributes, cost } = parsedCall.call
    const requestId = ++latestId.current
    setState((old) => ({ ...old, error: undefined, isBusy: true }))
    try {
      const decision = await api.peek({ attributes, cost: cost ?? parseCost(parsedCall.costText) })
      if (requestId === latestId.current) setState({ decision, parsedCall, isBusy: false })
    } catch (error) {
      if (requestId === latestId.current && !redirectIfLoggedOut(error))
        setState({ error, isBusy: false })
    }
  }
  return { state, ask: runPeek }
}

function PeekResult({ state }: { readonly state: PeekState }) {
  const { decision, error, isBusy } = state
  return (
    <div class="why-result" aria-live="polite">
      {error !== undefined && <ErrorNote error={error} />}
      {decision !== undefined && (
        <ExplanationResult decision={decision} parsedCall={state.parsedCall} />
      )}
      {decision === undefined && error === undefined && (
        <Card>
          {isBusy ? (
            <Loading what="Asking" />
          ) : (
            <Empty title="The answer comes here">
              Every rule is told of: whether it matches the call and why not, what is left of each
              limit, and the hash that stands for the caller in logs.
            </Empty>
          )}
        </Card>
      )}
    </div>
  )
}

interface ExplanationResultProps {
  readonly decision: DecisionView
  readonly parsedCall: PeekRequest | undefined
}

function ExplanationResult({ decision, parsedCall }: ExplanationResultProps) {
  const answer = explainDecision(decision)
  const rule =
    parsedCall?.rule === undefined
      ? undefined
      : ruleVerdict(parsedCall.rule, answer, parsedCall.call.attributes)
  return <ExplanationView explanation={answer} ruleVerdict={rule} />
}

interface RuleQuestionProps {
  readonly rule: string
  /** Names of attributes that nobody has seen. */
  readonly derived: readonly string[]
  /** The same call, with no rule in mind. */
  readonly hrefWithoutRule: string
}

function RuleQuestion({ rule, derived, hrefWithoutRule }: RuleQuestionProps) {
  return (
    <p class="soft small">
      Asked about{' '}
      <Link href={hrefs.rule(rule)}>
        <Text value={rule} mono />
      </Link>
      {derived.length > 0 && (
        <>
          : of the call only the caller is known, and <Text value={derived.join(', ')} max={200} />{' '}
          {derived.length === 1 ? 'is' : 'are'} such that it meets the rule
        </>
      )}
      . <Link href={hrefWithoutRule}>Ask about the call alone</Link>
    </p>
  )
}

interface ParsedCallViewProps {
  readonly parsedCall: ParsedCall
  /** Names that stay out of the address. */
  readonly withheld: readonly string[]
}

function ParsedCallView({ parsedCall, withheld }: ParsedCallViewProps) {
  const isEmpty = Object.keys(parsedCall.attributes).length === 0
  if (isEmpty && parsedCall.notes.length === 0) return null
  return (
    <div class="why-parsed">
      {!isEmpty && (
        <p>
          <span class="faint small">Read as </span>
          <Caller attributes={parsedCall.attributes} />
        </p>
      )}
      {withheld.length > 0 && (
        <Note tone="neutral">
          <Text value={withheld.join(', ')} max={200} /> may be a secret, and stays out of the
          address and of links.
        </Note>
      )}
      {parsedCall.notes.map((note) => (
        <Note key={note} tone="neutral">
          <Text value={note} max={600} />
        </Note>
      ))}
    </div>
  )
}

const parseCost = (text: string): number => (/^\d{1,15}$/.test(text.trim()) ? Number(text) : 1)

/** Every parameter is one but for the cost, the rule, and whether it shall be met. */
function attributesOf(query: URLSearchParams): Attributes {
  const isAttribute = ([name, value]: readonly [string, string]) =>
    !RESERVED_PARAMETERS.includes(name) && value !== ''
  return Object.fromEntries([...query].filter(isAttribute))
}

function whyHref(
  { attributes, cost }: ParsedCall,
  costText: string,
  rule: string | undefined,
): string {
  const number = cost ?? parseCost(costText)
  return hrefs.why(number === 1 ? attributes : { ...attributes, [COST]: String(number) }, rule)
}

const queryHref = (query: URLSearchParams): string => `/why?${query.toString()}`
