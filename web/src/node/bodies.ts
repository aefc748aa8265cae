// Short names of the bodies that the views of a node, of jobs and of circuits speak of.

import type { components } from "../schema";

type Schemas = components["schemas"];

export type Node = Schemas["NodeView"];
export type Gpu = Schemas["GpuView"];
export type Engine = Schemas["EngineView"];
export type EngineJob = Schemas["EngineJobView"];
export type NodeEvent = Schemas["NodeEventView"];
export type NodeEvents = Schemas["NodeEvents"];
export type Session = Schemas["SessionView"];
export type Reason = Schemas["ReasonView"];
export type Series = Schemas["NodeSeries"];
export type History = Schemas["NodeMetrics"];
export type Way = Schemas["SshView"];
export type HostKey = Schemas["HostKeyView"];
export type Attempt = Schemas["SshAttemptView"];
export type Attempts = Schemas["SshAttempts"];
export type Ladder = Schemas["LadderView"];
export type Chart = Schemas["SshChart"];
export type Symptom = Schemas["SymptomView"];
export type RecoveryPreview = Schemas["RecoveryPreview"];
export type Recovered = Schemas["RecoveredView"];
export type Process = Schemas["ProcessView"];
export type HubKeys = Schemas["SshKeysView"];
export type Rotation = Schemas["RotationView"];
export type RotationPreview = Schemas["RotationPreview"];
export type Job = Schemas["JobView"];
export type Jobs = Schemas["Jobs"];
export type Circuit = Schemas["CircuitView"];
export type Circuits = Schemas["Circuits"];
