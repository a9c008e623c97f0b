/** Explains why a request is allowed or refused, from attributes that the user pastes. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Attributes, AdminDecisionView } from '@sluice/client'
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
  readonly decision?: AdminDecisionView | undefined
  /** The request that `decision` belongs to. */
  readonly request?: PeekRequest | undefined
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
/** Only the caller is known: the page fills in the rest so that the request matches the rule. */
const MATCH = 'meet'
const RESERVED_PARAMETERS: readonly string[] = [COST, RULE, MATCH]

export function WhyPage() {
  const { query } = route.value
  const queryAttributes = useMemo(() => attributesOf(query), [query])
  const rule = query.get(RULE) ?? undefined
  const [text, setText] = useState(() => attributesText(queryAttributes))
  const [cost, setCost] = useState(query.get(COST) ?? '1')
  const { state, runPeek } = usePeek()
  const call = useMemo(() => parseCall(text), [text])
  // A link with attributes shows the explanation at once.
  useEffect(() => {
    if (Object.keys(queryAttributes).length === 0 && rule === undefined) return undefined
    return loadCall(query, (attributes) => {
      setText(attributesText(attributes))
      void runPeek({ call: { attributes, notes: [] }, costText: query.get(COST) ?? '1', rule })
    })
  }, [queryAttributes])
  const { attributes: shareable, withheld } = shareableAttributes(call.attributes, queryAttributes)
  const link = whyHref({ ...call, attributes: shareable }, cost, rule)
  const hasNoAttributes = Object.keys(call.attributes).length === 0 && rule === undefined
  const isEmpty = call.problem !== undefined || hasNoAttributes
  const submit = (event: Event) => {
    event.preventDefault()
    if (isEmpty) return
    // Navigating to a new address sends the request; the same address, or one that lacks a secret,
    // would not.
    if (link === queryHref(query) || withheld.length > 0)
      void runPeek({ call, costText: cost, rule })
    else navigate(link, { replace: true })
  }
  return (
    <Page
      title="Why?"
      lead="The decision a request would get now, and the rule behind it. No budget is spent."
    >
      <div class="why">
        <Card title="Request">
          <form class="why-form" onSubmit={submit}>
            <TextArea
              label="Attributes, a JSON object, a curl command or a log line"
              value={text}
              onInput={setText}
              rows={8}
              mono
              placeholder={'user=u1\nip=203.0.113.7\nmethod=GET\npath=/v1/orders'}
              error={call.problem}
            />
            <TextField label="Cost" type="number" min={0} step={1} value={cost} onInput={setCost} />
            <ParsedCallView parsedCall={call} withheld={withheld} />
            {rule !== undefined && (
              <RuleQuestion
                rule={rule}
                derived={query.has(MATCH) ? derivedNames(queryAttributes, call) : []}
                hrefWithoutRule={whyHref({ ...call, attributes: shareable }, cost, undefined)}
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

/** Reads the call from the address and fills it in to match the rule. Returns a cancel function. */
function loadCall(query: URLSearchParams, onCall: (attributes: Attributes) => void): () => void {
  const queryAttributes = attributesOf(query)
  const rule = query.has(MATCH) ? query.get(RULE) : null
  let isCurrent = true
  const read =
    rule === null
      ? undefined
      : api.getRule(rule).then(
          (known) => matchingCall(known, queryAttributes),
          // Without the rule nothing can be filled in; the explanation shows what is wrong.
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

/** Requests explanations from the server. Late responses are dropped. */
function usePeek() {
  const [state, setState] = useState<PeekState>({ isBusy: false })
  const latestId = useRef(0)
  const runPeek = async (request: PeekRequest) => {
    const { attributes, cost } = request.call
    const requestId = ++latestId.current
    setState((old) => ({ ...old, error: undefined, isBusy: true }))
    try {
      const decision = await api.peek({ attributes, cost: cost ?? parseCost(request.costText) })
      if (requestId === latestId.current) setState({ decision, request, isBusy: false })
    } catch (error) {
      if (requestId === latestId.current && !redirectIfLoggedOut(error))
        setState({ error, isBusy: false })
    }
  }
  return { state, runPeek }
}

function PeekResult({ state }: { readonly state: PeekState }) {
  const { decision, error, isBusy } = state
  return (
    <div class="why-result" aria-live="polite">
      {error !== undefined && <ErrorNote error={error} />}
      {decision !== undefined && <ExplanationResult decision={decision} request={state.request} />}
      {decision === undefined && error === undefined && (
        <Card>
          {isBusy ? (
            <Loading />
          ) : (
            <Empty title="No request explained yet">
              The explanation lists every rule: whether it matches and why not, what is left of each
              limit, and the hash that identifies the caller in logs.
            </Empty>
          )}
        </Card>
      )}
    </div>
  )
}

interface ExplanationResultProps {
  readonly decision: AdminDecisionView
  readonly request: PeekRequest | undefined
}

function ExplanationResult({ decision, request }: ExplanationResultProps) {
  const explanation = explainDecision(decision)
  const verdict =
    request?.rule === undefined
      ? undefined
      : ruleVerdict(request.rule, explanation, request.call.attributes)
  return <ExplanationView explanation={explanation} ruleVerdict={verdict} />
}

interface RuleQuestionProps {
  readonly rule: string
  /** Names of the attributes that were filled in. */
  readonly derived: readonly string[]
  /** The same request without a rule in question. */
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
          . Only the caller is known; <Text value={derived.join(', ')} max={200} />{' '}
          {derived.length === 1 ? 'was' : 'were'} filled in to match the rule
        </>
      )}
      . <Link href={hrefWithoutRule}>Explain without this rule</Link>
    </p>
  )
}

interface ParsedCallViewProps {
  readonly parsedCall: ParsedCall
  /** Names of the attributes that are left out of the address. */
  readonly withheld: readonly string[]
}

function ParsedCallView({ parsedCall, withheld }: ParsedCallViewProps) {
  const isEmpty = Object.keys(parsedCall.attributes).length === 0
  if (isEmpty && parsedCall.notes.length === 0) return null
  return (
    <div class="why-parsed">
      {!isEmpty && (
        <p>
          <span class="faint small">Parsed as </span>
          <Caller attributes={parsedCall.attributes} />
        </p>
      )}
      {withheld.length > 0 && (
        <Note tone="neutral">
          <Text value={withheld.join(', ')} max={200} /> may be secret and is left out of the
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

/** Every query parameter is an attribute, except the reserved ones. */
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
